"""Other blocks than `with lock`: `lock.hold()`, and decorated functions."""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from holdtight.base.identity import Identity, identity
from holdtight.base.wrong_with import BlockingOnly
from holdtight.sync.lease import Lease

__all__ = ["Hold", "under"]

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
