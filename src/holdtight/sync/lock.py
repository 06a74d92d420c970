"""`Lock` for blocking code: the uncontended path, bare, and the way to the driver for everything else."""

import functools
import inspect as inspection
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from holdtight.base import BaseLock
from holdtight.clock import CLOCK_ID, boottime, wait_seconds
from holdtight.core.contend import Answer, abandon, acquire, patience
from holdtight.core.ending import release
from holdtight.errand import Errand
from holdtight.errors import DeadlockDetected, NotOwner
from holdtight.events import Acquired
from holdtight.herald import tell
from holdtight.identity import Identity, identity
from holdtight.keeper import keeper
from holdtight.plan import LinkDown, ServerSaid
from holdtight.redis.link import Link
from holdtight.renewing import Renewal
from holdtight.settings import UNSET, Options
from holdtight.sync.driver import Driver
from holdtight.sync.lease import Lease
from holdtight.tenure import Tenure
from holdtight.values import LockInfo, LossReason, Owner, owner_text

if TYPE_CHECKING:
    from holdtight.sync.locks import Locks

__all__ = ["Hold", "Lock"]

P = ParamSpec("P")
R = TypeVar("R")

_clock = time.clock_gettime
_PATIENCE = 2.0


class Lock(BaseLock):
    """An exclusive lock as configuration: cheap to make, safe to share, holds no grant."""

    __slots__ = ("_patience", "_wait")

    _locks: "Locks"

    def __init__(self, locks: "Locks", name: str, options: Options) -> None:
        super().__init__(locks, name, options)
        self._wait = options.wait
        self._patience = patience(self.prepared, options.wait)

    # Taking.

    def acquire(self, *, wait: Any = UNSET) -> Lease:
        """A Lease; LockTimeout when the wait ends, Unavailable, DeadlockDetected or QueueFull."""
        return self.take(self._wait if wait is UNSET else wait_seconds(wait), identity())

    def try_acquire(self) -> Lease | None:
        """A Lease, or None if somebody else holds the lock. Never waits."""
        who = identity()
        if who.stack or who.grants:
            try:
                held = self.entered_by(who)
            except DeadlockDetected:
                return None
            if held is not None:
                return self._handle(held, who)
        return self._attempt(0.0, who, True)

    def take(self, wait: float | None, who: Identity) -> Lease:
        if who.stack or who.grants:
            held = self.entered_by(who)
            if held is not None:
                return self._handle(held, who)
        lease = self._attempt(wait, who, False)
        assert lease is not None
        return lease

    def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> Lease | None:
        """The uncontended path: one request, one reply, no plan."""
        locks = self._locks
        transport = locks.transport
        client = locks.client
        started = _clock(CLOCK_ID)
        lead = client.lead
        if lead is None or started > client.recorded_until or not transport.idle:
            return self._slowly(None, client.owner(), wait, started, None, 0, who, or_none)
        try:
            link = transport.idle.pop()
        except IndexError:  # another thread was quicker
            return self._slowly(None, client.owner(), wait, started, None, 0, who, or_none)
        owner = client.owner()
        prepared = self.prepared
        longest = self._patience if wait is self._wait else patience(prepared, wait)
        limit = int((started + lead + longest) * 1000) + 1
        head = prepared.ask if wait == 0 else prepared.attempt
        try:
            reply = link.call(b"%b%b$13\r\n%d\r\n$24\r\n%b\r\n" % (head, link.inbox_word, limit, owner), longest)
        except LinkDown as down:
            transport.scrap(link)
            return self._slowly(None, owner, wait, started, down, limit, who, or_none)
        except BaseException:
            with Driver(transport, link) as driver:
                driver.run(abandon(self.asking(owner, wait, started, or_none=or_none), limit))
            raise
        if reply.__class__ is not bytes:
            answer: Answer | None
            if isinstance(reply, Exception):
                said = ServerSaid(str(reply))
                answer = None if said.word == "NOSCRIPT" else said  # nothing has run: begin again
            else:
                answer = locks.store.read_attempt(reply, started)
            return self._slowly(link, owner, wait, started, answer, limit, who, or_none)
        transport.give(link)
        fence = int(reply)
        client.lead = fence / 1e6 - started
        if locks.events.wanted:
            locks.events.emit(Acquired(self._name, owner_text(owner), fence, 0.0))
        return self.granted(owner, fence, started, 0, who)

    def _slowly(
        self,
        link: Link | None,
        owner: Owner,
        wait: float | None,
        started: float,
        first: Answer | None,
        limit: int,
        who: Identity,
        or_none: bool,
    ) -> Lease | None:
        """All other ways: no connection yet, somebody else holds it, the server is not well."""
        locks = self._locks
        if locks.closed:
            raise RuntimeError(f"{locks!r} is closed")
        asking = self.asking(owner, wait, started, or_none=or_none)
        with Driver(locks.transport, link) as driver:
            try:
                granted = driver.run(acquire(asking, first, limit))
            except BaseException as error:
                locks.report_failure(asking, error)
                raise
        if granted is None:
            return None
        locks.report_grant(asking, granted.grant)
        return self.granted(owner, granted.grant.fence, granted.grant.sent, granted.marker, who)

    def granted(self, owner: Owner, fence: int, sent: float, marker: int, who: Identity) -> Lease:
        tenure = Tenure(self.terms, tell, owner, fence, sent, marker)
        keeper().add(tenure, sent)
        lease = Lease(self, tenure)
        if self.options.reentrant:
            lease.who = who
            who.remember(self.key, tenure)
        return lease

    def _handle(self, tenure: Tenure, who: Identity) -> Lease:
        """Another handle on a grant that is entered again."""
        lease = Lease(self, tenure)
        lease.who = who
        return lease

    # Giving back and renewing, for leases.

    def give_back(self, tenure: Tenure) -> None:
        keeper().drop(tenure)
        was_lost = tenure.lost()
        tenure.ended = True
        if tenure.reason is LossReason.FORKED:
            return
        locks = self._locks
        idle = locks.transport.idle
        if was_lost or tenure.marker or not idle:
            self._give_back_slowly(tenure, was_lost, None)
            return
        try:
            link = idle.pop()
        except IndexError:
            self._give_back_slowly(tenure, was_lost, None)
            return
        try:
            reply = link.call(b"%b$24\r\n%b\r\n" % (self.prepared.release, tenure.owner), _PATIENCE)
        except LinkDown as down:
            locks.transport.scrap(link)
            self._give_back_slowly(tenure, was_lost, down)
            return
        except BaseException:
            locks.transport.scrap(link)
            keeper().ask(Errand(locks.place, self.prepared.release_step(tenure.owner)))
            raise
        locks.transport.give(link)
        if reply != 1:
            self._give_back_slowly(tenure, was_lost, reply)
        elif locks.events.wanted:
            locks.report_release(tenure)

    def _give_back_slowly(self, tenure: Tenure, was_lost: bool, first: Any) -> None:
        locks = self._locks
        marker = locks.marker_of(tenure)
        try:
            with Driver(locks.transport, beyond=True) as driver:
                reason = driver.run(release(self.prepared, tenure.owner, marker=marker, first=first))
        except (LinkDown, ServerSaid) as error:
            raise locks.report_no_release(self.prepared, tenure, error, marker) from error
        if was_lost:
            return
        if reason is not None:
            tenure.reason = reason
            raise NotOwner.on("release", self._name, reason)
        if locks.events.wanted:
            locks.report_release(tenure)

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        done = threading.Event()
        renewal = Renewal(tenure, ttl, done.set, last=last)
        renewal.start()
        done.wait(min(_PATIENCE, max(0.0, tenure.deadline - boottime()) + 0.05))
        renewal.conclude()

    # As a context manager and as a decorator.

    def __enter__(self) -> Lease:
        who = identity()
        lease = self.take(self._wait, who)
        who.enter_block(self.key, lease)
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease: Lease = identity().leave_block(self.key)
        lease.leave(error)

    def hold(self, *, wait: Any = UNSET) -> "Hold":
        """A single-use context manager that carries its lease: enter and exit may be in different threads."""
        return Hold(self, self._wait if wait is UNSET else wait_seconds(wait))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: every call runs under the lock."""
        if inspection.iscoroutinefunction(function) or inspection.isasyncgenfunction(function):
            raise TypeError(f"{function!r} is async: decorate it with a lock of AsyncLocks")

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return locked

    # Looking.

    def locked(self) -> bool:
        """Whether anybody holds it, this moment."""
        return self.inspect().locked

    def inspect(self) -> LockInfo:
        """Who holds it and who waits, in order."""
        return self._locks.inspect(self._name)


class Hold:
    """What `lock.hold()` gives."""

    def __init__(self, lock: Lock, wait: float | None) -> None:
        self._lock = lock
        self._wait = wait
        self._lease: Lease | None = None
        self._used = False

    def __enter__(self) -> Lease:
        if self._used:
            raise RuntimeError("a hold() can be entered once: make another")
        self._used = True
        self._lease = self._lock.take(self._wait, identity())
        return self._lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lease is not None
        self._lease.leave(error)
