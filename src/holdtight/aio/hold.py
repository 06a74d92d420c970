"""Other blocks than `async with lock`: `lock.hold()`, and decorated functions."""

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from holdtight.aio.lease import AsyncLease
from holdtight.base.identity import Identity, identity
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.decorating import begun, check_decorated, is_async

__all__ = ["AsyncHold", "Decorator"]

P = ParamSpec("P")
R = TypeVar("R")


def under(lock: Any, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Wraps the function so that each call runs in a block of the lock. Raises TypeError or ValueError if it cannot."""
    check_decorated(lock, function)
    if not is_async(function):
        raise TypeError(f"{function!r} is not an async function: decorate it with a lock of Locks")

    @functools.wraps(function)
    async def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        async with lock:
            result: R = begun(await function(*args, **kwargs), function)
            return result

    return locked


class Decorator:
    """Lets a lock decorate async functions."""

    __slots__ = ()

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """As a decorator: every call of the function runs under the lock, and raises as an `async with` block does.

        Raises TypeError for generator functions and functions that are not async, ValueError for names like "id:{id}".
        """
        return under(self, function)


class Takes(Protocol):
    async def take(self, wait: float | None, who: Identity) -> AsyncLease: ...


class AsyncHold(AsyncOnly):
    """The result of `lock.hold()`. Raises RuntimeError when it is entered twice."""

    def __init__(self, lock: Takes, wait: float | None) -> None:
        self._lock = lock
        self._wait = wait
        self._lease: AsyncLease | None = None
        self._used = False

    async def __aenter__(self) -> AsyncLease:
        if self._used:
            raise RuntimeError("a hold() can be entered once: make another")
        self._used = True
        lease = self._lease = await self._lock.take(self._wait, identity())
        lease.has_block = True
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lease is not None
        failure = await self._lease.leave()
        if failure is None:
            return
        if error is None:
            raise failure
        error.add_note(str(failure))
