"""Other blocks than `with lock`: `lock.hold()`, and decorated functions."""

# pyright: reportOverlappingOverload=false

import functools
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from holdtight.base.identity import Identity, identity
from holdtight.base.wrong_with import BlockingOnly
from holdtight.sync.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Decorator", "Hold", "Unknown", "UseAsyncLocks"]

P = ParamSpec("P")
R = TypeVar("R")


def under(lock: Any, function: Callable[P, R]) -> Callable[P, R]:
    """Wraps the function so that each call runs in a block of the lock. Raises TypeError or ValueError if it cannot."""
    from holdtight.clients.decorating import (  # loaded with the first decorator, not with the package
        begun,
        check_decorated,
        is_async,
    )

    if is_async(function):
        raise TypeError(f"{function!r} is async: decorate it with a lock of AsyncLocks")
    check_decorated(lock, function)

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            result: R = begun(function(*args, **kwargs), function)
            return result

    return locked


class UseAsyncLocks:
    """For type checkers: an async function that a blocking lock decorates. It cannot be called, so that they flag its
    first use; at run time decorating it raises TypeError."""


class Unknown:
    """For type checkers: no function returns this, so one that fits has the type Any, and may well be blocking."""


class Decorator:
    """Lets a lock decorate functions."""

    __slots__ = ()

    if TYPE_CHECKING:
        # The overloads overlap on purpose: the first two find the functions for which the third would be wrong.
        @overload
        def __call__(self, function: Callable[P, Unknown]) -> Callable[P, Any]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]
            self, function: Callable[P, Coroutine[Any, Any, Any]]
        ) -> UseAsyncLocks: ...
        @overload
        def __call__(self, function: Callable[P, R]) -> Callable[P, R]: ...
        def __call__(self, function: Any) -> Any: ...

    else:

        def __call__(self, function):
            """As a decorator: every call of the function runs under the lock, and raises as a `with` block does.

            Raises TypeError for generator functions and async functions, ValueError for a name like "order:{id}".
            """
            return under(self, function)


class Takes(Protocol):
    def take(self, wait: float | None, who: Identity) -> Lease: ...


class Hold(BlockingOnly):
    """The result of `lock.hold()`. Raises RuntimeError when it is entered twice."""

    def __init__(self, lock: Takes, wait: float | None) -> None:
        self._lock = lock
        self._wait = wait
        self._lease: Lease | None = None
        self._used = False

    def __enter__(self) -> Lease:
        if self._used:
            raise RuntimeError("a hold() can be entered once: make another")
        self._used = True
        lease = self._lease = self._lock.take(self._wait, identity())
        lease.has_block = True
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease = self._lease
        assert lease is not None
        try:
            lease.leave(error)
        except BaseException:
            lease.forsake()  # for interrupts; has no effect on a lease that has ended
            raise
