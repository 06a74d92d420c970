"""`lock.hold()`: a block that carries its own lease."""

from types import TracebackType
from typing import Protocol

from holdtight.aio.lease import AsyncLease
from holdtight.identity import Identity, identity

__all__ = ["AsyncHold"]


class Takes(Protocol):
    async def take(self, wait: float | None, who: Identity) -> AsyncLease: ...


class AsyncHold:
    """What `lock.hold()` gives."""

    def __init__(self, lock: Takes, wait: float | None) -> None:
        self._lock = lock
        self._wait = wait
        self._lease: AsyncLease | None = None
        self._used = False

    async def __aenter__(self) -> AsyncLease:
        if self._used:
            raise RuntimeError("a hold() can be entered once: make another")
        self._used = True
        self._lease = await self._lock.take(self._wait, identity())
        return self._lease

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
