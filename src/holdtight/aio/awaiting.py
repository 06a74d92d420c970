"""A hint for a forgotten `await`: `lock.acquire()` returns a coroutine that says so when it is used as a lease."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from holdtight.aio.lease import AsyncLease

__all__ = ["gives_a_lease"]

P = ParamSpec("P")
R = TypeVar("R")
_mark: Callable[[Any], object] = getattr(inspect, "markcoroutinefunction", bool)  # from Python 3.12 on


class Awaited(Coroutine[Any, Any, R]):
    """The coroutine of one call. Await it, or make a task of it."""

    __slots__ = ("__weakref__", "_call", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, R], call: str) -> None:
        self._coroutine = coroutine
        self._call = call

    def __await__(self) -> Generator[Any, Any, R]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def _forgotten(self) -> str:
        self._coroutine.close()  # the hint says what Python's warning about it would say
        return f"{self._call}() was not awaited, so there is no lease yet: write"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(AsyncLease, name):
            raise AttributeError(f"{self._forgotten()} 'lease = await ...{self._call}(...)', and then lease.{name}")
        return getattr(self._coroutine, name)  # cr_frame and the like

    def __bool__(self) -> bool:
        raise TypeError(f"{self._forgotten()} 'lease = await ...{self._call}(...)'")

    def _enter(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self._forgotten()} 'async with await ...{self._call}(...) as lease'")

    __enter__ = __exit__ = __aenter__ = __aexit__ = _enter

    def __repr__(self) -> str:
        return f"<{self._call}() to be awaited, {self._coroutine!r}>"


def gives_a_lease(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates a coroutine function whose result is a lease or None."""
    call = function.__name__

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return Awaited(function(*args, **kwargs), call)

    _mark(called)
    return cast(Callable[P, Coroutine[Any, Any, R]], called)
