"""`AsyncLock`: a fast path for the uncontended case; the driver handles everything else."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from holdtight.aio.awaiting import gives_a_lease, gives_an_answer
from holdtight.aio.connection import Connection
from holdtight.aio.degraded import without_the_server
from holdtight.aio.driver import Driver
from holdtight.aio.hold import AsyncHold, Decorator
from holdtight.aio.lease import AsyncLease, Block, leave_elsewhere
from holdtight.aio.transport import Transport
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, identity, task_identity
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.process import current
from holdtight.base.values import HANDED_ON, RELEASED, Grant, LockInfo, Owner
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.degraded import may_degrade
from holdtight.clients.lock import BaseLock
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.contend import Answer, Asking, abandon, acquire, patience
from holdtight.core.ending import release
from holdtight.errors import LockTimeout, NotOwner, Unavailable
from holdtight.grants.leak_warning import leak_warning_for
from holdtight.grants.manual_renewal import Renewal
from holdtight.grants.tenure import Tenure
from holdtight.stores.times import LONGEST_PATIENCE, QUICK, marker_for

if TYPE_CHECKING:
    from typing import Never

    from holdtight.aio.locks import AsyncLocks
    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["AsyncLock"]

_new = object.__new__
_running_loop = asyncio.get_running_loop
_current_task = asyncio.current_task


class AsyncLock(BaseLock, Decorator, AsyncOnly):
    """An exclusive lock for asyncio, as configuration: cheap to make, safe to share, holds no grant.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks, locks.lock("order:42") as lease:
        ...         lease.check()
        >>> asyncio.run(main())
    """

    __slots__ = ()

    _locks: "AsyncLocks"
    driver: type[Driver] = Driver
    """Runs its plans."""

    # Acquiring.

    @gives_a_lease
    async def acquire(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncLease:
        """Returns a lease; `wait` is how long to wait for it, and the lock's own `wait` if it is left out.

        Raises LockTimeout when the wait ends, Unavailable, DeadlockDetected, QueueFull, RuntimeError on a closed
        client.

        Raises DeadlockDetected at once if this task holds the lock in a block, LockTimeout with `wait=0`. If it holds
        the lock through `acquire()`, another task may release that, so this call waits, and logs it after
        `deadlock_after` seconds.
        """
        if unknown:
            raise unknown_options("acquire", unknown, ("wait",))
        who = identity()
        lease = await self.take(self.terms.wait if wait is UNSET else wait_seconds(wait), who)
        self._locks.took(self._name, lease.tenure, who)
        return lease

    @gives_a_lease
    async def try_acquire(self) -> AsyncLease | None:
        """Returns a lease, or None if it is not free now. Never waits. Raises Unavailable, RuntimeError once closed."""
        who = identity()
        if who.stack or who.grants:
            try:
                held = self.entered_by(who, 0.0)
            except LockTimeout:
                return None
            if held is not None:
                return AsyncLease.again(self, held, who)
        lease = await self._attempt(0.0, who, True)
        if lease is not None:
            self._locks.took(self._name, lease.tenure, who)
        return lease

    async def take(self, wait: float | None, who: Identity) -> AsyncLease:
        if who.stack or who.grants:
            held = self.entered_by(who, wait)
            if held is not None:
                return AsyncLease.again(self, held, who)
        lease = await self._attempt(wait, who, False)
        assert lease is not None
        return lease

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        """The uncontended path: one request, one reply, no plan."""
        locks = self._locks
        transport = locks.latest
        if transport is None or transport.loop is not _running_loop():
            transport = locks.transport()
        connection = transport.connection
        client = locks.client
        clock = self.terms.clock
        started = clock()
        lead = client.lead
        try:
            owner = client.owners.pop()
        except IndexError:
            owner = client.owner()
        if connection is None or not connection.alive or lead is None or started > client.recorded_until:
            return await self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who, transport)
        prepared = self.prepared
        if wait is self.terms.wait:
            longest = self.terms.patience
        else:
            longest = patience(prepared, wait, locks.settings.connect_timeout)
        limit = (started + lead + longest) * 1e6
        queue = wait is None or wait > 0
        head = (prepared.attempt if queue else prepared.ask) or prepared.pack_attempt(queue=queue)
        try:
            reply = await connection.ask(
                b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (head, connection.inbox_word, limit, owner), longest
            )
        except LinkDown as down:
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            return await self._slowly(asking, who, transport, connection, down, marker_for(limit))
        except BaseException as error:
            asking = self.asking(owner, wait, started, or_none=or_none)
            with self.driver(transport, connection) as driver:
                await driver.run(abandon(asking, marker_for(limit)))
            locks.report_failure(self.terms, asking, error)
            raise
        if reply.__class__ is not bytes:
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            return await self._slowly(asking, who, transport, connection, self._understood(reply, started))
        fence = int(reply)
        took = clock() - started
        if took < QUICK:
            client.lead = fence / 1e6 - started
        else:
            client.learn(fence / 1e6, started)
        if took >= prepared.valid:  # this process was paused: the plan asks again
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            return await self._slowly(asking, who, transport, connection, Grant(fence, started))
        tenure = Tenure(self.terms, self.prepared, transport.deliver, owner, fence, started, 0)
        lease = _new(AsyncLease)
        lease.lock = self
        lease.tenure = tenure
        lease.leak_warning = leak_warning_for(tenure)  # before the keeper has it: an interrupt may come anywhere
        lane = self.terms.lane
        if lane.epoch != current.epoch:
            lane = self.terms.lane_now()
        due = started + lane.interval
        if due < lane.latest - lane.slack:
            self.terms.runtime.keeper.add(tenure, started)  # the reply was slow: due too early for the end of the lane
        else:
            lane.charges[tenure] = lane.latest = due
            if not lane.armed:
                self.terms.runtime.keeper.arm(lane, due)
        if self.terms.unusual:
            self.see_to(lease, who)
        if locks.events.active:
            await lease.tell(locks.report_quick_grant, tenure, started)
        return lease

    async def _slowly(
        self,
        asking: Asking,
        who: Identity,
        transport: Transport,
        connection: Connection | None = None,
        first: Answer | None = None,
        limit: int = 0,
    ) -> AsyncLease | None:
        """All other cases: no connection yet, the lock is held, or the server has a problem. `first` is the answer to
        a request that was sent, `limit` the latest moment at which that request may still arrive."""
        locks = self._locks
        try:
            if first is None and not limit:
                locks.check_open()  # after a request was sent, the plan checks this, so that it can undo the request
            with self.driver(transport, connection) as driver:
                granted = await driver.run(acquire(asking, first, limit))
        except BaseException as error:
            degrades = may_degrade(self.terms, error)
            locks.report_failure(self.terms, asking, error, degrades=degrades)
            if not degrades:
                raise
            return await without_the_server(self, error, asking, who)
        if granted is None:
            locks.report_failure(self.terms, asking, None)
            return None
        grant = granted.grant
        lease = self.granted(transport, asking.owner, grant.fence, grant.sent, granted.marker, who, grant.acks)
        await lease.tell(locks.report_grant, lease.tenure, asking, grant)
        return lease

    def granted(
        self, transport: Transport, owner: Owner, fence: int, sent: float, marker: int, who: Identity, acks: int = 0
    ) -> AsyncLease:
        tenure = self.new_tenure(transport.deliver, owner, fence, sent, marker, acks)
        lease = AsyncLease(self, tenure)
        self.terms.runtime.keeper.add(tenure, sent)
        if self.terms.unusual:
            self.see_to(lease, who)
        return lease

    # Releasing and renewing, for leases.

    async def give_back(self, tenure: Tenure) -> None:
        self.terms.runtime.keeper.drop(tenure)
        if tenure.lost():
            self.let_go(tenure)  # no answer could change anything, and the server may hang
            return
        tenure.ended = True
        locks = self._locks
        transport = locks.transport()
        connection = transport.connection
        if tenure.marker or connection is None or not connection.alive:
            await self._give_back_slowly(transport, tenure, None)
            return
        head = self.prepared.release or self.prepared.pack_release()
        try:
            reply = await connection.ask(b"%b$24\r\n%b\r\n" % (head, tenure.owner), LONGEST_PATIENCE)
        except LinkDown as down:
            await self._give_back_slowly(transport, tenure, down)
            return
        except asyncio.CancelledError:
            self.let_go(tenure)
            raise
        if reply == HANDED_ON:
            self.handed_on(tenure)
        elif reply != RELEASED:
            await self._give_back_slowly(transport, tenure, reply)
            return
        locks.events.refresh()
        locks.report_release(tenure)

    async def _give_back_slowly(self, transport: Transport, tenure: Tenure, first: Any) -> None:
        locks = self._locks
        marker = locks.marker_of(tenure)
        try:
            with self.driver(transport) as driver:
                reason = await driver.run(release(self.prepared, tenure.owner, marker=marker, first=first))
        except (LinkDown, ServerSaid) as error:
            raise locks.report_no_release(self.prepared, tenure, error, marker) from error
        except asyncio.CancelledError:
            self.let_go(tenure)
            raise
        if reason is not None:
            tenure.lost_at_release(reason)
            raise NotOwner.on("release", self._name, reason)
        self.handed_on(tenure)
        locks.events.refresh()
        locks.report_release(tenure)

    async def downgrade(self, tenure: Tenure) -> AsyncLease:
        """Returns the read lease that replaces the write lease."""
        lock = self.reading()
        tenure.waiting = True
        self.terms.runtime.keeper.drop(tenure)
        try:
            grant = await self._locks.run(self.downgrading(lock, tenure), self._name)
        except BaseException as error:
            self.not_downgraded(tenure, error)
            raise
        here, who = self._locks.transport(), identity()
        return lock.granted(here, tenure.owner, grant.fence, grant.sent, tenure.marker, who, grant.acks)

    async def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        renewal = Renewal(tenure, ttl, lambda: self.terms.runtime.call_soon(loop, finish), last=last)
        renewal.start()
        try:
            await asyncio.wait(
                [done], timeout=min(LONGEST_PATIENCE, max(0.0, tenure.deadline - self.terms.clock()) + 0.05)
            )
        except asyncio.CancelledError:
            renewal.give_up()
            raise
        renewal.conclude()

    # As a context manager.

    async def __aenter__(self) -> AsyncLease:
        task = _current_task()
        if task is None:
            raise RuntimeError("async with on a lock must run inside a task")
        who = task_identity(task)
        if who.stack or who.grants:
            lease = await self.take(self.terms.wait, who)
        else:
            lease = cast(AsyncLease, await self._attempt(self.terms.wait, who, False))
        who.enter_block(self.key, Block(lease, task))
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
        asked = None if block.cancelled or lease.closed else self._give_back_at_once(tenure)
        if asked is None:
            await block.exit(error)
            return
        lease.shut()
        try:
            answer = await asked
        except LinkDown as down:
            answer = down
        except asyncio.CancelledError:
            self.let_go(tenure)
            raise
        if answer != RELEASED or self.terms.events.active:
            await self._finish_giving_back(lease, answer, error)

    def _give_back_at_once(self, tenure: Tenure) -> "asyncio.Future[Any] | None":
        """The usual end of a block: sends the release and returns the future of its answer. None in all other cases."""
        transport = self._locks.latest
        if (
            tenure.entered != 1
            or tenure.reason is not None
            or tenure.ended
            or tenure.marker
            or self.terms.unusual
            or tenure.epoch != current.epoch
            or self.terms.clock() >= tenure.deadline
            or transport is None
            or transport.loop is not _running_loop()
        ):
            return None
        connection = transport.connection
        if connection is None or not connection.alive:
            return None
        tenure.entered = 0
        tenure.ended = True
        if self.terms.lane.charges.pop(tenure, None) is None:
            self.terms.runtime.keeper.drop(tenure)
        head = self.prepared.release or self.prepared.pack_release()
        return connection.ask(b"%b$24\r\n%b\r\n" % (head, tenure.owner), LONGEST_PATIENCE)

    async def _finish_giving_back(self, lease: AsyncLease, first: Any, error: BaseException | None) -> None:
        """Continues from the answer to `_give_back_at_once`, or from its LinkDown."""
        if first == HANDED_ON:
            self.handed_on(lease.tenure)
        if first in (RELEASED, HANDED_ON):
            return self._locks.report_release(lease.tenure) if self._locks.events.active else None
        try:
            await self._give_back_slowly(self._locks.transport(), lease.tenure, first)
        except NotOwner as failure:
            if error is None:
                raise
            error.add_note(str(failure))
        except Unavailable:
            pass  # an event and a log line report it; the body has done its work, and the ttl ends the grant

    def hold(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncHold:
        """A single-use context manager that carries its lease: one task may enter it, another exit. `wait` as for
        `acquire`. A loss cancels no task.

        Entering raises as `acquire`.
        """
        if unknown:
            raise unknown_options("hold", unknown, ("wait",))
        return AsyncHold(self, self.terms.wait if wait is UNSET else wait_seconds(wait))

    # Inspecting.

    @gives_an_answer
    async def locked(self) -> bool:
        """Whether the lock is held at this moment. Raises Unavailable."""
        return (await self.inspect()).locked

    async def inspect(self) -> LockInfo:
        """The holders, and the waiters in order. Raises Unavailable."""
        return await self._locks.inspect(self._name)
