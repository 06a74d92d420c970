"""A lease for asyncio code, and the block whose body is cancelled when the lease is lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdtight.base.clock import ttl_seconds, wait_seconds
from holdtight.base.identity import Identity, Key, is_of, task_identity, tasks_inside
from holdtight.base.wrong_with import AsyncOnly
from holdtight.config.settings import unknown_options
from holdtight.errors import LeaseLost, LockError, NotOwner, Unavailable
from holdtight.grants.lease import GLANCE, BaseLease, Detached
from holdtight.grants.tenure import Tenure

if TYPE_CHECKING:
    from typing import Never

    from holdtight.aio.lock import AsyncLock
    from holdtight.config.options import Duration

__all__ = ["AsyncLease", "Block", "end_block", "leave_elsewhere"]


class AsyncLease(BaseLease, AsyncOnly):
    """One grant in your hands, renewed automatically until it is released or lost. `await lock.acquire()` and `async
    with` blocks give one; it is a context manager itself. The body of an `async with` is cancelled when the lease is
    lost.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks:
        ...         async with await locks.lock("order:42").acquire(wait=5) as lease:
        ...             await lease.renew("30s")
        ...             print(lease.remaining() > 20, await lease.wait_lost(timeout=0))
        >>> asyncio.run(main())
        True False
    """

    lock: "AsyncLock"

    async def __aenter__(self) -> Self:
        """Raises RuntimeError if it was released or is in a block already, LeaseLost if it is lost."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("async with on a lease must run inside a task")
        self.may_enter()
        self.step_in(task_identity(task), self.block_in(task))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.block_key is not None
        # Left in another task than it was entered in: unlike a lock, a lease knows its block, so that always ends it.
        await end_block(self.block_key, kind or RuntimeError, error, self.step_out)

    def block_in(self, task: "asyncio.Task[Any]") -> "Block":
        return Block(self, task)

    async def wait_lost(self, timeout: "Duration | None" = None) -> bool:
        """Waits until the lease is lost (True), or until it is released or `timeout` is over (False)."""
        limit = wait_seconds(timeout, "timeout")
        if self.lost:
            return True
        loop, runtime = asyncio.get_running_loop(), self.tenure.place.runtime
        gone = loop.create_future()

        def hook() -> None:  # runs on the loop that acquired the lease, which may be another one
            runtime.call_soon(loop, _finish, gone)

        tenures = self.tenures
        until = float("inf") if limit is None else runtime.clock() + limit
        try:
            for tenure in tenures:
                tenure.on_loss(hook)
            while not gone.done() and not self.closed and all(tenure.alive for tenure in tenures):
                due = loop.create_future()
                timer = runtime.call_at(loop, min(runtime.clock() + GLANCE, until), _finish, due)
                try:
                    await asyncio.wait([gone, due], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    timer.cancel()
                if runtime.clock() >= until:
                    break
        finally:
            for tenure in tenures:
                tenure.drop_hook(hook)
        return gone.done() or self.lost

    async def renew(self, ttl: "Duration | None" = None, **unknown: "Never") -> None:
        """Sets the time left to `ttl` (default: the lease's own), which later renewals use too.

        Raises LeaseLost if the lease is not held any more, Unavailable if the server does not answer.
        """
        if unknown:
            raise unknown_options("renew", unknown, ("ttl",))
        number = None if ttl is None else ttl_seconds(ttl, renewed=self.tenure.terms.renew)
        self.check()
        await self.lock.renew_tenure(self.tenure, number)

    async def tell(self, report: Callable[..., None], *args: Any) -> None:
        """Reports the grant of this lease. A subscriber may raise a BaseException such as SystemExit. Then the caller
        never gets the lease, so this releases the lock first."""
        try:
            report(*args)
        except BaseException:
            with suppress(LockError):
                await self.release()
            raise

    async def release(self) -> None:
        """Releases the lock. Idempotent. Raises NotOwner if it was lost before, Unavailable if that is not known."""
        if self._close():
            await self.lock.give_back(self.tenure)
            self._not_if_lost("release")

    async def detach(self, ttl: "Duration | None" = None, **unknown: "Never") -> str:
        """Ends this lease without releasing the lock and returns a text: any client with the text can `adopt` the lock
        within `ttl`, so keep it secret.

        Raises NotSupported unless it is an exclusive lock, entered once, on one server that was reachable; LeaseLost if
        the lease is not held any more; Unavailable if the server does not answer.
        """
        if unknown:
            raise unknown_options("detach", unknown, ("ttl",))
        number = self.ttl if ttl is None else ttl_seconds(ttl, renewed=False)
        self._may_detach()
        await self.lock.renew_tenure(self.tenure, number, last=True)
        self._close()
        try:
            self.lock.report_detached(self.tenure)
        except BaseException:  # raised by a subscriber: the caller never gets the text, so nothing could adopt the lock
            with suppress(LockError):
                await self.lock.give_back(self.tenure)
            raise
        self.detached = True
        return Detached(self.name, self.tenure.owner).text()

    async def downgrade(self) -> "AsyncLease":
        """Turns a write lease into a read lease without a gap: ends this lease and returns the new one. A block that
        held this lease releases the new one at its end.

        Raises NotSupported unless it is a write lease, entered once, not on a quorum; LeaseLost if the lease is not
        held any more; Unavailable if the server does not answer, and then this lease is lost.
        """
        self._may_downgrade()
        lease = await self.lock.downgrade(self.tenure)
        self._downgraded(lease)
        if not lease.degraded:
            await lease.tell(self.lock.report_downgraded, self.tenure, lease.tenure)
        return lease

    async def leave(self) -> LeaseLost | None:
        """Ends a block: releases, and returns the loss to report, if any."""
        if self.successor is not None:
            successor: AsyncLease = self.successor
            return await successor.leave()
        tenure = self.tenure
        was_lost = tenure.lost()
        failure: LeaseLost | None = None
        try:
            if self._close():
                await self.lock.give_back(tenure)
        except NotOwner as not_owner:
            failure = not_owner
        except Unavailable:
            pass  # an event and a log line report it; the body has done its work, and the ttl ends the grant
        if was_lost:
            failure = LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        return failure


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Block:
    """One `async with` body. Follows the rules of `asyncio.timeout`: decides to cancel only on the loop, never after
    the block began to exit, and takes back only its own cancellation.

    # Invariants:
    # - `lease_lost` and `begin_exit` run on the same loop, so one of them is first;
    # - each `task.cancel()` of the block is matched by one `task.uncancel()`.
    """

    __slots__ = ("_around", "_cancelling", "_task", "cancelled", "exiting", "lease")

    def __init__(self, lease: AsyncLease, task: "asyncio.Task[Any]") -> None:
        self.lease = lease
        lease.has_block = True
        self._task = task
        self._cancelling = task.cancelling()
        self.cancelled = False
        """This block has cancelled the body."""
        self.exiting = False
        tenure = lease.tenure
        self._around = tenure.block
        """The outer block on the same grant, if the lock was entered again."""
        tenure.block = self
        if tenure.reason is not None:
            self.tell_lost()

    @property
    def tenure(self) -> Tenure:
        return self.lease.tenure

    @property
    def stranded(self) -> bool:
        return self._task.get_loop().is_closed()

    def tell_lost(self) -> None:
        """On the loop of the body, which may be another one than acquired the lease."""
        self.lease.tenure.place.runtime.call_soon(self._task.get_loop(), self.lease_lost)

    def lease_lost(self) -> None:
        if not self.exiting and not self.cancelled:
            self.cancelled = True
            self._task.cancel()

    def begin_exit(self) -> None:
        """From here on the body is not cancelled."""
        self.exiting = True
        tenure = self.lease.tenure
        tenure.block = self._around
        if self._around is not None and tenure.reason is not None:
            self._around.tell_lost()

    async def exit(self, error: BaseException | None) -> None:
        """Call after `begin_exit`: releases, takes back the block's own cancellation, and reports a loss."""
        outer = self.cancelled and self._task.uncancel() > self._cancelling
        failure = await self.lease.leave()
        if failure is None:
            return
        if error is None or (self.cancelled and not outer and isinstance(error, asyncio.CancelledError)):
            raise failure from error
        error.add_note(str(failure))


async def end_block(
    key: Key,
    kind: type[BaseException] | None,
    error: BaseException | None,
    step_out: Callable[[Identity], None],
) -> None:
    """The end of a block; `step_out` removes what was entered besides the block itself."""
    who = task_identity(asyncio.current_task())
    try:
        block: Block = who.leave_block(key)
    except RuntimeError:
        await leave_elsewhere(key, kind, step_out)
        raise
    block.begin_exit()
    step_out(who)
    await block.exit(error)


async def leave_elsewhere(
    key: Key, kind: type[BaseException] | None, step_out: Callable[[Identity], None] | None = None
) -> None:
    """Ends a block that is left in another task than the one that entered it, if there is only one candidate: no other
    code would release it. This happens when the loop closes a dropped async generator.

    With readers and permits several blocks may be open. Then the blocks of finished tasks stop keeping their leases
    alive, as for a thread that ends inside a block.
    """
    inside = [(who, each) for who in tasks_inside(key) for entered, each in list(who.stack) if is_of(entered, key)]
    found = [(who, each) for who, each in inside if isinstance(each, Block)]
    ended = dict.fromkeys(who for who, _ in found if who.task is not None and who.task.done())
    if len(found) == 1 and (ended or kind is not None):
        who, block = found[0]
        who.leave_block(key)
        block.begin_exit()
        if step_out is not None:
            step_out(who)
        await block.lease.leave()
        return
    for who in ended:
        for each in who.end_blocks():
            if isinstance(each, Block):
                each.begin_exit()
