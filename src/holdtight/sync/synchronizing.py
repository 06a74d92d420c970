"""`Locks.synchronized`."""

from collections.abc import Callable
from typing import Any

from holdtight.clients.decorating import begun
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.names import Naming

__all__ = ["synchronized"]


def synchronized(locks: Any, name: Any, options: dict[str, Any]) -> Callable[[Any], Any]:
    locks.lock("any name", **options)  # wrong options show at decoration

    def wrap(function: Any) -> Any:
        naming = Naming(name, function)
        make, name_of, fixed = locks.lock, naming.of, naming.fixed

        def job(*args: Any, **kwargs: Any) -> Any:
            with make(fixed if fixed is not None else name_of(args, kwargs), **options):
                return begun(function(*args, **kwargs), function)

        return dressed(job, function, naming)

    return decorator("synchronized", wrap, awaits=False)
