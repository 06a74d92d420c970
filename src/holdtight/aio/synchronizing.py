"""`AsyncLocks.synchronized`."""

from collections.abc import Callable
from typing import Any

from holdtight.clients.decorating import begun
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.locking import job_locks
from holdtight.recipes.names import Naming

__all__ = ["synchronized"]


def synchronized(locks: Any, name: Any, options: dict[str, Any]) -> Callable[[Any], Any]:
    lock_of = job_locks(locks, options, name)

    def wrap(function: Any) -> Any:
        naming = Naming(name, function)
        name_of, fixed = naming.of, naming.fixed

        async def job(*args: Any, **kwargs: Any) -> Any:
            async with lock_of(fixed if fixed is not None else name_of(args, kwargs)):
                return begun(await function(*args, **kwargs), function)

        return dressed(job, function, naming)

    return decorator("synchronized", wrap, awaits=True)
