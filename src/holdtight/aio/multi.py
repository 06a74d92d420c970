"""Multi-locks for asyncio code."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdtight.aio.awaiting import gives_a_lease, gives_an_answer
from holdtight.aio.hold import AsyncHold, Decorator
from holdtight.aio.lease import AsyncLease, Block, end_block
from holdtight.aio.lock import AsyncLock
from holdtight.base import refusals
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, identity, task_identity
from holdtight.base.values import LockInfo
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.multi import BaseMulti, MultiLeaseMixin, combined
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.multi import in_one_script
from holdtight.errors import LeaseLost, LockError
from holdtight.grants.tenure import Cancellable, Tenure

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["AsyncMulti", "AsyncMultiLease"]


class AsyncMultiLease(MultiLeaseMixin, AsyncLease):
    """One lease on several locks. `fences` maps each name to its fence."""

    def __init__(self, lock: "AsyncMulti", parts: tuple[AsyncLease, ...]) -> None:
        self.lock: Any = lock
        self.parts = parts
        self.tenure = parts[0].tenure

    async def renew(self, ttl: "Duration | None" = None, **unknown: "Never") -> None:
        self.check()
        for part in self.parts:
            await part.renew(ttl, **unknown)

    async def release(self) -> None:
        """Releases all parts. Idempotent. Raises the first error of any part, after trying all."""
        if self.closed:
            return
        if self.forsake_if_lost():
            self._not_if_lost("release")
            return
        self.closed = True
        failures = await _give_back(self.parts)
        if failures:
            raise failures[0]

    async def detach(self, ttl: "Duration | None" = None, **unknown: "Never") -> str:
        raise refusals.detach_several(self.name)

    async def downgrade(self) -> AsyncLease:
        raise refusals.downgrade_several(self.name)

    def block_in(self, task: "asyncio.Task[Any]") -> Block:
        return _Block(self, task)

    async def leave(self) -> LeaseLost | None:
        for loss in self.forsake_if_lost():
            return loss
        self.closed = True
        failures = await _give_back(self.parts)
        return next((each for each in failures if isinstance(each, LeaseLost)), None)


class _Block(Block):
    """Cancels the body when any part is lost."""

    __slots__ = ("_blocks_around",)

    def __init__(self, lease: AsyncMultiLease, task: "asyncio.Task[Any]") -> None:
        self.lease: Any = lease
        lease.has_block = True
        self._task = task
        self._cancelling = task.cancelling()
        self.cancelled = self.exiting = False
        self._around = None
        self._blocks_around: list[tuple[Tenure, Cancellable | None]] = [(each, each.block) for each in lease.tenures]
        for tenure in lease.tenures:
            tenure.block = self
        for tenure in lease.tenures:
            if tenure.reason is not None:
                self.tell_lost()

    def begin_exit(self) -> None:
        self.exiting = True
        for tenure, around in self._blocks_around:
            tenure.block = around
            if around is not None and tenure.reason is not None:
                around.tell_lost()


class AsyncMulti(BaseMulti[AsyncLock], Decorator, AsyncOnly):
    """Several locks that are held together or not at all. `locks.multi("a", "b")` makes one.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks, locks.multi("a", "b") as lease:
        ...         print(sorted(lease.fences))
        >>> asyncio.run(main())
        ['a', 'b']
    """

    @gives_a_lease
    async def acquire(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncLease:
        """Returns one lease on all parts, after at most `wait` for all of them together. Raises as `AsyncLock.acquire`,
        naming the part that could not be had.
        """
        if unknown:
            raise unknown_options("acquire", unknown, ("wait",))
        return self.taken(await self.take(self._wait if wait is UNSET else wait_seconds(wait), identity()))

    @gives_a_lease
    async def try_acquire(self) -> AsyncLease | None:
        """Returns one lease on all parts, or None if any is not free. Never waits. Raises as AsyncLock does."""
        who = identity()
        leases = await self._take(None, who, or_none=True)
        if leases is None:
            return None
        self.step_out(who)
        return self.taken(AsyncMultiLease(self, leases))

    async def take(self, wait: float | None, who: Identity) -> AsyncLease:
        leases = await self._take(wait, who)
        assert leases is not None
        self.step_out(who)
        return AsyncMultiLease(self, leases)

    async def _take(self, wait: float | None, who: Identity, *, or_none: bool = False) -> tuple[AsyncLease, ...] | None:
        """Leases on all parts. They count as held in blocks: while the last part is waited for, the first is held."""
        clock = self._locks.place.clock
        started = clock()
        if self.can_be_one_step and not self.entered_by(who):
            try:
                granted = await self._in_one_script(who, started)
            except BaseException as error:
                self.report_failed(started, wait, error)
                raise
            if granted is not None:
                return granted
        leases: list[AsyncLease] = []
        try:
            for part in self.parts:
                left = wait if not wait else max(0.0, wait - (clock() - started))
                lease = await (AsyncLock.try_acquire(part) if or_none else part.take(left, who))
                if lease is None:
                    await self._give_up(leases, who)
                    return None
                leases.append(lease)
                who.enter_block(part.key, lease)
            self.check_parts(leases, started, wait)
        except BaseException:
            await self._give_up(leases, who)
            raise
        return tuple(leases)

    async def _in_one_script(self, who: Identity, started: float) -> tuple[AsyncLease, ...] | None:
        """Takes all parts with one request, if all are free and have no waiters."""
        locks = self._locks
        locks.check_open()
        owner = locks.client.owner()
        several = locks.store.several([part.prepared for part in self.parts])
        plan = in_one_script(several, owner, clock=locks.place.clock, acks=locks.place.acks)
        grants = await locks.run(plan, self.name)
        if grants is None:
            return None
        leases: list[AsyncLease] = []
        for part, grant in zip(self.parts, grants, strict=True):
            lease = part.granted(locks.transport(), owner, grant.fence, grant.sent, 0, who, grant.acks)
            leases.append(lease)
            who.enter_block(part.key, lease)
        try:
            locks.events.refresh()
            for lease in leases if locks.events.active else ():
                locks.report_quick_grant(lease.tenure, started)
        except BaseException:  # raised by a subscriber
            await self._give_up(leases, who)
            raise
        return tuple(leases)

    async def _give_up(self, leases: list[AsyncLease], who: Identity) -> None:
        for part in reversed(self.parts[: len(leases)]):
            who.leave_block(part.key)
        await _give_back(leases)

    # As a context manager.

    async def __aenter__(self) -> AsyncLease:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("async with on a lock must run inside a task")
        who = task_identity(task)
        leases = await self._take(self._wait, who)
        assert leases is not None
        lease = AsyncMultiLease(self, leases)
        who.enter_block(self.key, _Block(lease, task))
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await end_block(self.key, kind, error, self.step_out)

    def hold(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncHold:
        """A single-use context manager that carries its lease: one task may enter it, another exit. `wait` as for
        `acquire`; entering raises as `acquire`.
        """
        if unknown:
            raise unknown_options("hold", unknown, ("wait",))
        return AsyncHold(self, self._wait if wait is UNSET else wait_seconds(wait))

    # Inspecting.

    @gives_an_answer
    async def locked(self) -> bool:
        """Whether any part is held at this moment. Raises Unavailable."""
        return (await self.inspect()).locked

    async def inspect(self) -> LockInfo:
        """The holders and waiters of all parts. Raises Unavailable."""
        return combined(self.name, [await part.inspect() for part in self.parts])


async def _give_back(leases: Sequence[AsyncLease]) -> list[LockError]:
    """Releases all, also after a failure, and returns the failures. If cancelled or interrupted, leaves the rest to the
    keeper."""
    failures: list[LockError] = []
    try:
        for lease in reversed(leases):
            try:
                await lease.release()
            except LockError as error:
                failures.append(error)
    except BaseException:
        for lease in leases:
            lease.forsake()
        raise
    return failures
