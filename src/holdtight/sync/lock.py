"""`Lock` for blocking code: a fast path for the uncontended case; the driver handles everything else."""

from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, identity, may_block, running_loop
from holdtight.base.plan import LinkDown
from holdtight.base.process import current
from holdtight.base.records import GRANTED
from holdtight.base.values import Grant, LockInfo, Owner, Queued
from holdtight.base.wrong_with import BlockingOnly
from holdtight.clients.degraded import may_degrade
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.contend import SHORTEST_PATIENCE, Answer, Asking, acquire, patience
from holdtight.errors import LockTimeout, NotOwner, Unavailable
from holdtight.grants.leak_warning import leak_warning_for
from holdtight.grants.tenure import Tenure
from holdtight.keeper.charges import TOUCH_SECONDS
from holdtight.stores.boundary import Link
from holdtight.stores.times import QUICK, marker_for
from holdtight.sync.degraded import without_the_server
from holdtight.sync.hold import Decorator, Hold
from holdtight.sync.inside import in_a_loop
from holdtight.sync.lease import Lease
from holdtight.sync.release import ReleasingLock

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["Lock"]

_new = object.__new__


class Lock(ReleasingLock, Decorator, BlockingOnly):
    """An exclusive lock as configuration: cheap to make, safe to share, holds no grant. `locks.lock(name)` makes one.

    Example:
        >>> with locks.lock("order:42") as lease:  # waits, holds, releases
        ...     lease.check()
        >>> @locks.lock("report")  # every call holds the lock
        ... def report():
        ...     return "done"
        >>> report()
        'done'
    """

    __slots__ = ()

    # Acquiring.

    def acquire(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Lease:
        """Returns a Lease; `wait` is how long to wait for it, and the lock's own `wait` if it is left out.

        Raises LockTimeout when the wait ends, Unavailable, DeadlockDetected, QueueFull, RuntimeError on a closed
        client.

        Raises DeadlockDetected at once if this thread holds the lock in a block, LockTimeout with `wait=0`. If it holds
        the lock through `acquire()`, another thread may release that, so this call waits, and logs it after
        `deadlock_after` seconds. In a thread that runs an event loop, waiting for a task of that loop raises
        DeadlockDetected; other waits warn.

        Example:
            >>> lease = locks.lock("order:42").acquire(wait=5)
            >>> lease.release()
        """
        if unknown:
            raise unknown_options("acquire", unknown, ("wait",))
        who = identity()
        lease = self.take(self.terms.wait if wait is UNSET else wait_seconds(wait), who)
        self._locks.took(self._name, lease.tenure, who)
        return lease

    def try_acquire(self) -> Lease | None:
        """Returns a Lease, or None if it is not free now. Never waits. Raises Unavailable, RuntimeError once closed.

        Example:
            >>> lease = locks.lock("nightly").try_acquire()
            >>> if lease is not None:
            ...     lease.release()
        """
        who = identity()
        if who.stack or who.grants:
            try:
                held = self.entered_by(who, 0.0)
            except LockTimeout:
                return None
            if held is not None:
                return Lease.again(self, held, who)
        lease = self._asked(0.0, who, True)
        if lease is not None:
            self._locks.took(self._name, lease.tenure, who)
        return lease

    def take(self, wait: float | None, who: Identity) -> Lease:
        if who.stack or who.grants:
            held = self.entered_by(who, wait)
            if held is not None:
                return Lease.again(self, held, who)
        lease = self._asked(wait, who, False)
        assert lease is not None
        return lease

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        """The uncontended path: one request, one reply, no plan. With `in_block`, the lease goes straight into the
        block and has no leak warning."""
        locks, terms = self._locks, self.terms
        client = locks.client
        transport = locks.transport
        clock = terms.clock
        started = clock()
        lead = client.lead
        try:
            owner = client.owners.pop()
        except IndexError:
            owner = client.owner()
            transport.look_again()
        who.asks = owner
        if lead is None or started > client.recorded_until:
            return self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who)
        try:
            link = transport.idle.pop()
        except IndexError:
            return self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who)
        prepared = self.prepared
        if wait is terms.wait:
            longest = terms.patience
        else:
            longest = patience(prepared, wait, locks.settings.connect_timeout)
        limit = (started + lead + longest) * 1e6
        queue = wait is None or wait > 0
        head = (prepared.attempt if queue else prepared.ask) or prepared.pack_attempt(queue=queue)
        try:
            reply = link.call(b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (head, link.inbox_word, limit, owner), longest)
        except LinkDown as down:
            transport.lose(link, down)
            return self._slowly(
                self.asking(owner, wait, started, who, or_none=or_none), who, first=down, limit=marker_for(limit)
            )
        except BaseException as error:
            self.abandon(link, self.asking(owner, wait, started, or_none=or_none), limit, error)
            raise
        if type(reply) is not bytes:
            answer = self._understood(reply, started)
            if isinstance(answer, Queued):
                self.prepared.wanted = True
                if link.inbox and not may_block(who) and not locks.events.loud and running_loop() is None:
                    if locks.events.active:
                        return self._briefly_recorded(link, owner, wait, started, answer, limit, who)
                    return self._briefly(link, owner, wait, started, answer, limit, who)
            return self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who, link, answer)
        if transport.unlimited:
            transport.idle.append(link)
        else:
            transport.give(link)
        fence = int(reply)
        now = clock()
        if now - started < QUICK:
            client.lead = fence / 1e6 - started
        else:
            client.learn(fence / 1e6, started)
        if now - started >= terms.valid:  # this process was paused: the plan asks again
            return self._slowly(
                self.asking(owner, wait, started, who, or_none=or_none), who, first=Grant(fence, started)
            )
        tenure = Tenure(terms, prepared, terms.tell, owner, fence, started, 0)
        lease = _new(Lease)
        lease.lock = self
        lease.tenure = tenure
        try:  # an interrupt may come between any two statements
            if in_block:
                lease.leak_warning = None
                who.stack.append((self.key, lease))
            else:
                lease.leak_warning = leak_warning_for(tenure)
            lane = terms.lane
            if lane.epoch != current.epoch:
                lane = terms.lane_now()
            due = started + lane.interval
            if due < lane.latest - lane.slack:
                terms.runtime.keeper.add(tenure, started)  # the reply was slow: due too early for the end of the lane
            else:
                lane.charges[tenure] = lane.latest = due
                if not lane.armed:
                    terms.runtime.keeper.arm(lane, due)
            if terms.unusual:
                self.see_to(lease, who)
            events = locks.events
            if events.active:
                if events.record is not None:
                    events.record((GRANTED, tenure, started, now, False))
                if events.loud:
                    lease.tell(locks.report_quick_grant, tenure)
            return lease
        except BaseException:
            lease.forsake()
            raise

    def _briefly(
        self, link: Link, owner: Owner, wait: float | None, started: float, queued: Queued, limit: float, who: Identity
    ) -> Lease | None:
        """The usual, short wait: if the bell comes before the place in the queue needs a heartbeat, confirms without a
        plan. In all other cases a plan continues from here."""
        transport, store, clock = self._locks.transport, self._locks.store, self.terms.clock
        since = sent = clock()
        answer: Answer | None
        until = since + min(TOUCH_SECONDS, queued.look)
        try:
            bell = transport.park(link, owner, until if wait is None else min(until, started + wait))
            if bell is None or bell.look is not None:
                look = max(0.0, since + queued.look - clock())
                answer = queued._replace(look=min(look, bell.look) if bell and bell.look is not None else look)
            else:
                sent = clock()
                longest = self.terms.patience
                if wait is not None:
                    longest = min(longest, max(started + wait - sent, SHORTEST_PATIENCE))
                limit = store.not_after(sent, longest)
                head = self.prepared.attempt or self.prepared.pack_attempt(queue=True)
                request = b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (head, link.inbox_word, limit, owner)
                answer = self._understood(link.call(request, longest), sent)
        except LinkDown as down:
            down.sent = True  # at least the attempt that queued us has been sent
            asking = self.asking(owner, wait, started, who, or_none=False)
            if transport.closed:  # a link that `close` woke reads no more, but the undo goes out on it
                return self._slowly(asking, who, link, down, marker_for(limit), since)
            transport.lose(link, down)
            return self._slowly(asking, who, first=down, limit=marker_for(limit), in_line_since=since)
        except BaseException as error:
            self.abandon(link, self.asking(owner, wait, started, or_none=False), limit, error, queued=True)
            raise
        if not isinstance(answer, Grant) or answer.expired or clock() - sent >= self.prepared.valid:
            asking = self.asking(owner, wait, started, who, or_none=False)
            return self._slowly(asking, who, link, answer, in_line_since=since)
        transport.give(link)
        lease = self.granted(owner, answer.fence, sent, 0, who)
        record = self._locks.events.record
        if record is not None:
            record((GRANTED, lease.tenure, started, clock(), True))
        return lease

    def _briefly_recorded(
        self, link: Link, owner: Owner, wait: float | None, started: float, queued: Queued, limit: float, who: Identity
    ) -> Lease | None:
        """As `_briefly`, and counts among those that wait."""
        self._locks.events.waiting[owner] = self
        try:
            return self._briefly(link, owner, wait, started, queued, limit, who)
        finally:
            self._locks.events.waiting.pop(owner, None)

    def _slowly(
        self,
        asking: Asking,
        who: Identity,
        link: Link | None = None,
        first: Answer | None = None,
        limit: int = 0,
        in_line_since: float | None = None,
    ) -> Lease | None:
        """All other cases: no connection yet, the lock is held, or the server has a problem. `first` is the answer to
        a request that was sent, `limit` the latest moment at which that request may still arrive."""
        locks = self._locks
        asking.before_waiting = in_a_loop(self)
        try:
            if first is None and not limit:
                locks.check_open()  # after a request was sent, the plan checks this, so that it can undo the request
            touch_at = 0.0
            if in_line_since is not None:
                asking.answered = asking.in_line = asking.queued = True
                touch_at = in_line_since + TOUCH_SECONDS
            with self.driver(locks.transport, link, touch_at=touch_at) as driver:
                granted = driver.run(acquire(asking, first, limit))
        except BaseException as error:
            degrades = may_degrade(self.terms, error)
            locks.report_failure(self.terms, asking, error, degrades=degrades)
            if not degrades:
                raise
            return without_the_server(self, error, asking, who)
        if granted is None:
            locks.report_failure(self.terms, asking, None)
            return None
        grant = granted.grant
        lease = self.granted(asking.owner, grant.fence, grant.sent, granted.marker, who, grant.acks)
        lease.tell(locks.report_grant, lease.tenure, asking, grant)
        return lease

    def granted(self, owner: Owner, fence: int, sent: float, marker: int, who: Identity, acks: int = 0) -> Lease:
        tenure = self.new_tenure(self.terms.tell, owner, fence, sent, marker, acks)
        lease = Lease(self, tenure)
        self.terms.runtime.keeper.add(tenure, sent)
        if self.terms.unusual:
            self.see_to(lease, who)
        return lease

    # As a context manager.

    def __enter__(self) -> Lease:
        who = identity()
        depth = len(who.stack)
        who.asks = None
        lease: Any = None
        try:
            if depth or who.grants:
                lease = self.take(self.terms.wait, who)
            else:
                lease = self._attempt(self.terms.wait, who, False, who.task is None)
            if lease.leak_warning is not None:
                lease.has_block = True
                who.enter_block(self.key, lease)
            return lease  # type: ignore[no-any-return]
        except BaseException as error:
            if lease is not None:
                lease.forsake()  # it may not be in the block yet
            identity().break_off(depth)
            self.call_off(who.asks, error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease: Any = None
        try:
            who = identity()
            stack = who.stack
            if who.task is None and stack and stack[-1][0] is self.key:
                lease = stack[-1][1]
                del stack[-1]
            else:
                lease = who.lease_of(self.key)
                who.leave_block(self.key)
            tenure: Tenure = lease.tenure
            terms = self.terms
            clock = terms.clock
            if (
                tenure.entered != 1
                or tenure.reason is not None
                or tenure.ended
                or tenure.marker
                or terms.unusual
                or tenure.epoch != current.epoch
                or clock() >= tenure.deadline
            ):
                lease.leave(error)
                return
            tenure.entered = 0
            tenure.ended = lease.closed = True
            try:
                if lease.leak_warning is not None:
                    lease.shut()
                try:
                    del terms.lane.charges[tenure]
                except KeyError:
                    terms.runtime.keeper.drop(tenure)
                self._give_back_at_once(tenure)
            except (NotOwner, Unavailable) as failure:
                lease.conclude(failure, error)
            except BaseException as interrupt:
                self.call_off(tenure.owner, interrupt)
                raise
        except BaseException:
            identity().break_off_end(self.key, lease)
            raise

    def hold(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Hold:
        """A single-use context manager that carries its lease: one thread may enter it, another exit. `wait` as for
        `acquire`; entering raises as `acquire`.

        Example:
            >>> with locks.lock("order:42").hold(wait=5) as lease:
            ...     lease.check()
        """
        if unknown:
            raise unknown_options("hold", unknown, ("wait",))
        return Hold(self, self.terms.wait if wait is UNSET else wait_seconds(wait))

    # Inspecting.

    def locked(self) -> bool:
        """Whether the lock is held at this moment. Raises Unavailable.

        Example:
            >>> locks.lock("order:42").locked()
            False
        """
        return self.inspect().locked

    def inspect(self) -> LockInfo:
        """The holders, and the waiters in order. Raises Unavailable.

        Example:
            >>> locks.lock("order:42").inspect().waiting
            0
        """
        return self._locks.inspect(self._name)
