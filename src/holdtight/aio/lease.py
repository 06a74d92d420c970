"""A lease for asyncio code, and the block that is cancelled when it is lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import ttl_seconds, wait_seconds
from holdtight.base.identity import Identity, Key, tasks_inside
from holdtight.errors import LeaseLost, LockError, NotOwner, Unavailable
from holdtight.grants.lease import BaseLease, Detached
from holdtight.grants.tenure import Tenure

if TYPE_CHECKING:
    from holdtight.aio.lock import AsyncLock

__all__ = ["AsyncLease", "Block", "leave_elsewhere"]

_GLANCE = 0.25


class AsyncLease(BaseLease):
    """One grant in the user's hands. Renewed by itself; `check()` before anything that must not run twice."""

    lock: "AsyncLock"

    async def wait_lost(self, timeout: Any = None) -> bool:
        """Waits until the lease is lost (True), or the timeout has passed or the lease was released (False)."""
        limit = wait_seconds(timeout, "timeout")
        if self.lost:
            return True
        loop, runtime = asyncio.get_running_loop(), self.tenure.place.runtime
        gone = loop.create_future()

        def hook() -> None:  # delivered on the loop that acquired, which need not be this one
            runtime.call_soon(loop, _finish, gone)

        tenures = self.tenures
        until = float("inf") if limit is None else runtime.clock() + limit
        try:
            for tenure in tenures:
                tenure.on_loss(hook)
            while not gone.done() and not self.closed and all(tenure.alive for tenure in tenures):
                due = loop.create_future()
                timer = runtime.call_at(loop, min(runtime.clock() + _GLANCE, until), _finish, due)
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

    async def renew(self, ttl: Any = None) -> None:
        """Sets the time left to `ttl` (default: the lease's own), and renews with it from now on."""
        number = None if ttl is None else ttl_seconds(ttl, renewed=self.tenure.terms.renew)
        self.check()
        await self.lock.renew_tenure(self.tenure, number)

    async def tell(self, report: Callable[..., None], *args: Any) -> None:
        """Reports what gave this lease. A subscriber may raise what is no Exception (SystemExit): then nobody gets the
        lease, so the lock goes back first."""
        try:
            report(*args)
        except BaseException:
            with suppress(LockError):
                await self.release()
            raise

    async def release(self) -> None:
        """Gives the lock back. Idempotent. NotOwner if it was not ours any more, Unavailable if that is not known."""
        if self._close():
            await self.lock.give_back(self.tenure)
            self._not_if_lost("release")

    async def detach(self, ttl: Any = None) -> str:
        """Ends this lease without releasing: whoever gets the text can `adopt` the lock within `ttl`. A secret."""
        number = self.ttl if ttl is None else ttl_seconds(ttl, renewed=False)
        self._may_detach()
        await self.lock.renew_tenure(self.tenure, number, last=True)
        self._close()
        try:
            self.lock.report_detached(self.tenure)
        except BaseException:  # of a subscriber: nobody gets the text, so nobody could ever adopt the lock
            with suppress(LockError):
                await self.lock.give_back(self.tenure)
            raise
        return Detached(self.name, self.tenure.owner).text()

    async def downgrade(self) -> "AsyncLease":
        """From writing to reading with no gap: ends this lease and gives the reader's. A block that held this one gives
        back the other at its end."""
        self._may_downgrade()
        lease = await self.lock.downgrade(self.tenure)
        self._downgraded(lease)
        if not lease.degraded:
            await lease.tell(self.lock.report_downgraded, self.tenure, lease.fence)
        return lease

    async def leave(self) -> LeaseLost | None:
        """The end of a block: releases. Returns what is to be said about a loss."""
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
            pass  # an event and a log line say so; the body has done its work, and the grant ends by its ttl
        if was_lost:
            failure = LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        return failure


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Block:
    """One `async with` body. By the rules of `asyncio.timeout`: the decision to cancel is made on the loop, never after
    the block has begun to exit, and only the cancellation that we asked for is taken back.

    # Invariants:
    # - `lease_lost` and `begin_exit` run on the same loop, so one of them is first;
    # - every `task.cancel()` of ours is answered by one `task.uncancel()`.
    """

    __slots__ = ("_around", "_cancelling", "_task", "cancelled", "exiting", "lease")

    def __init__(self, lease: AsyncLease, task: "asyncio.Task[Any]") -> None:
        self.lease = lease
        self._task = task
        self._cancelling = task.cancelling()
        self.cancelled = False
        """We have asked for the body to be cancelled."""
        self.exiting = False
        tenure = lease.tenure
        self._around = tenure.block
        """The block around this one on the same grant, if it is entered again."""
        tenure.block = self
        if tenure.reason is not None:
            tenure.deliver(self.lease_lost)

    @property
    def tenure(self) -> Tenure:
        return self.lease.tenure

    @property
    def stranded(self) -> bool:
        return self._task.get_loop().is_closed()

    def lease_lost(self) -> None:
        if not self.exiting and not self.cancelled:
            self.cancelled = True
            self._task.cancel()

    def begin_exit(self) -> None:
        """From here on the body is not cancelled any more."""
        self.exiting = True
        tenure = self.lease.tenure
        tenure.block = self._around
        if self._around is not None and tenure.reason is not None:
            tenure.deliver(self._around.lease_lost)

    async def exit(self, error: BaseException | None) -> None:
        """After `begin_exit`: gives back, takes our cancellation back, and tells of a loss."""
        outer = self.cancelled and self._task.uncancel() > self._cancelling
        failure = await self.lease.leave()
        if failure is None:
            return
        if error is None or (self.cancelled and not outer and isinstance(error, asyncio.CancelledError)):
            raise failure from error
        error.add_note(str(failure))


async def leave_elsewhere(
    key: Key, kind: type[BaseException] | None, step_out: Callable[[Identity], None] | None = None
) -> None:
    """Gives back what a block held that is left in another task than it was entered in, if it can be told which: nobody
    else ever will. So ends a generator that the loop closes because nobody has it any more.

    Of readers and permits several may be open: then those are kept no more whose task has ended, as with a thread that
    ends in a block.
    """
    inside = [(who, each) for who in tasks_inside(key) for entered, each in list(who.stack) if entered == key]
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
