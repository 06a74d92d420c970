"""`AsyncLock` with `cohort=True`. See clients/cohort.py."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdtight.aio.lease import AsyncLease, Block, leave_elsewhere
from holdtight.aio.lock import AsyncLock
from holdtight.base.identity import Identity, may_block, task_identity
from holdtight.base.runtime import Runtime
from holdtight.clients.cohort import CohortPart
from holdtight.clients.cohort_line import CLOSED, LEAD, Member, key_of
from holdtight.clients.terms import LockTerms
from holdtight.grants.tenure import Tenure

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["AsyncCohortLock"]

_current_task = asyncio.current_task
_loop_here = asyncio._get_running_loop  # pyright: ignore[reportPrivateUsage]


class Sleeping(Member):
    """A task that waits."""

    __slots__ = ("_loop", "_runtime", "woken")

    def __init__(self, since: float, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(since)
        self._runtime = runtime
        self._loop = loop
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> bool:
        loop = self._loop
        if _loop_here() is loop:
            if not self.woken.done():
                self.woken.set_result(None)
        elif loop.is_closed():
            return False
        else:
            self._runtime.call_soon(loop, self._set)
        return True

    def _set(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    async def sleep(self, until: float) -> None:
        timer = self._runtime.call_at(self._loop, until, self._set)
        try:
            await self.woken
        finally:
            timer.cancel()


class AsyncCohortLock(CohortPart, AsyncLock):
    __slots__ = ("line_key",)

    def __init__(self, locks: "BaseLocks[Any]", name: str, terms: LockTerms) -> None:
        super().__init__(locks, name, terms)
        self.line_key = key_of(name, terms)

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        locks, terms = self._locks, self.terms
        if locks.closed or self.stands_alone(wait, who):
            return await super()._attempt(wait, who, or_none)
        clock = terms.clock
        transport = locks.transport()
        deliver = transport.deliver
        started = clock()
        member, asks = Sleeping(started, terms.runtime, transport.loop), False
        try:
            if locks.cohort.enter(self.line_key, member, started, terms.shape.max_waiters):
                asks = True
                return self._led(member, await super()._attempt(wait, who, or_none))
            self.waits(member)
            if wait is None and not may_block(who):
                await member.woken
            else:
                await member.sleep(self.sleeps_until(wait, started, who))
            member.awake, news = True, member.news
            if news is LEAD:
                asks = True
                self.waits_no_more(member)
                return self._led(member, await self._now(wait, started, who))
            now = clock()
            if news is not None and news is not CLOSED and now < news.sent + terms.valid:
                lease = AsyncLease(self, self.tenure_of(news, deliver, now))
                locks.cohort.take_up(self.line_key, member, lease.tenure)
                self.take_up(member, lease, who)
                if locks.events.active:
                    await lease.tell(locks.report_turn, lease.tenure, started)
                return lease
            self.give_up(member, deliver)
            locks.check_open()
        except BaseException as error:
            self.give_up(member, deliver)
            if not asks:
                self.report_left(member, wait, error)
            raise
        self.waits_no_more(member)
        return await self._now(wait, started, who)

    async def _now(self, wait: float | None, started: float, who: Identity) -> AsyncLease | None:
        """Asks the server, after a wait in the local line: that counts as one in the server's. A caller whose wait is
        over asks once; the error then names the holder."""
        over = wait is not None and self.terms.clock() >= started + wait
        asking = self.asking(self._locks.client.owner(), 0.0 if over else wait, started, who, or_none=False)
        asking.answered = asking.queued = not over
        return await self._slowly(asking, who, self._locks.transport())

    def _led(self, member: Member, lease: AsyncLease | None) -> AsyncLease | None:
        assert lease is not None
        self.begin_batch(member, lease.tenure)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            block: Block = task_identity(_current_task()).leave_block(self.key)
        except RuntimeError:
            await leave_elsewhere(self.key, kind)
            raise
        block.begin_exit()
        lease = block.lease
        tenure = lease.tenure
        # The usual end: the next task gets it. All other cases are those of any block.
        if tenure.entered == 1 and not lease.closed and not self.terms.options.reentrant and self.pass_on(tenure):
            tenure.entered = 0
            lease.shut()
        else:
            await block.exit(error)

    async def give_back(self, tenure: Tenure) -> None:
        if self.pass_on(tenure):
            return
        try:
            await super().give_back(tenure)
        finally:
            self.end_batch(tenure)

    async def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        self.end_batch(tenure)
        await super().renew_tenure(tenure, ttl, last=last)

    async def downgrade(self, tenure: Tenure) -> AsyncLease:
        self.end_batch(tenure)
        return await super().downgrade(tenure)
