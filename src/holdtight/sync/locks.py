"""`Locks`: a client for blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdtight.base.clock import BACKOFF, DRIFT
from holdtight.base.names import check_name
from holdtight.base.wrong_with import BlockingOnly
from holdtight.clients.client import BaseLocks
from holdtight.config.settings import UNSET, Settings, unknown_options
from holdtight.sync.jobs import Jobs

if TYPE_CHECKING:
    import builtins  # of which `list` is hidden below by the method
    import ssl
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Never, Unpack

    from holdtight.base.clock import Backoff, Drift
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.base.plan import Plan
    from holdtight.base.values import LockInfo
    from holdtight.config.options import Credentials, Duration, LockOptions, OnUnavailable, SemaphoreOptions, Target
    from holdtight.config.profiles import Profile, Unset
    from holdtight.sync.driver import Driver
    from holdtight.sync.kinds import ReadWriteLock, Semaphore
    from holdtight.sync.lease import Lease
    from holdtight.sync.lock import Lock
    from holdtight.sync.multi import Multi
    from holdtight.sync.quorum_driver import FanDriver

__all__ = ["Locks"]

R = TypeVar("R")


class Locks(BaseLocks["Lock"], Jobs, BlockingOnly):
    """A client for blocking code: locks on one server, a cluster or a quorum. Safe to share between threads; survives
    fork. Make one and keep it: `close()` it at the end, or use it as a context manager.

    Options:
        target: where the locks are: a URL (of one server, `redis+sentinel://` or `redis+cluster://`), a client object
            of redis-py or valkey-py whose settings are read, or a list of either, which is a quorum.
            Default: $HOLDTIGHT_URL, then $REDIS_URL.
        namespace: the prefix of every key. Clients exclude each other within one namespace only. Default "ht".
        ttl: how long the server keeps a lock whose holder has died. A live holder renews it every third of that time.
            100 ms to 7 days. Default 30 s.
        wait: how long acquiring waits: None for ever, 0 not at all. Default None.
        label: a text for people who inspect a lock or read an error about it. Default None.
        profiles: a mapping from name patterns such as "orders:*" to `Profile`: other values for these names. Default
            None.
        acks: how many replicas must have a grant, and each renewal, before it counts. With too few the grant is given
            back and tried again, at last Unavailable. Makes a failover lose fewer grants, not none. On one server,
            Sentinel and a cluster. Default 0: replicas are not asked.
        on_unavailable: what to do when the server cannot be reached. "raise" raises Unavailable; "local" gives a lock
            of this process only; "open" gives the lock without asking anybody. `lease.degraded` tells. Default "raise".
        drift: how far clocks may diverge while a lease runs, as a `Drift`. The holder relies on the ttl less that.
            Default: 1% of the ttl and 2 ms.
        max_waiters: how many may wait for one name; the next one gets QueueFull. Default 10,000.
        deadlock_after: how long a caller that holds other locks waits before it looks for a deadlock. Default 1 s.
        connect_timeout: how long connecting may take. Default 2 s.
        retry: the pauses between attempts to reach a server, as a `Backoff`. Default: 10 ms to 1 s.
        max_connections: the most connections that callers share; a caller that finds none free waits for one. For each
            server of a cluster. Not on a quorum. Default None: as many as there are callers at a time.
        tls: an `ssl.SSLContext` for connections to the server, in place of the TLS settings of the URL. Default None.
        credentials: a password, (user, password), or a callable that gives either and is called at every connect.
            Default None: those of the URL.
        sentinel_credentials: the same for the Sentinels of a `redis+sentinel://` target, which have users of their own.
            Default None: no login.
        max_ttl: of a quorum: the longest ttl that its clients may ask for. A node that restarts keeps out of votes for
            that long. All clients of a quorum must agree. Default 2 minutes.
        restart_guard: of a quorum: whether a node that restarts keeps out of votes for `max_ttl`. Default True.
        spin: a blocking caller polls for its answer for about a tenth of a millisecond before it sleeps, which makes a
            nearby server quicker to answer and costs processor time. It stops by itself where that does not pay.
            Default True.

    Raises TypeError or ValueError for an option that is not allowed, NotSupported for one that would be unsafe here.
    Does not connect: the first acquisition does.

    Example:
        >>> with Locks("memory://", ttl="10s") as locks:
        ...     with locks.lock("order:42", wait=5) as lease:
        ...         print(lease.name, lease.lost)
        order:42 False
    """

    public = (*BaseLocks.public, "close")

    def __init__(
        self,
        target: Target = None,
        *,
        namespace: str = "ht",
        ttl: Duration = 30,
        wait: Duration | None = None,
        label: str | None = None,
        profiles: Mapping[str, Profile] | None = None,
        acks: int = 0,
        on_unavailable: OnUnavailable = "raise",
        drift: Drift = DRIFT,
        max_waiters: int = 10_000,
        deadlock_after: Duration = 1.0,
        connect_timeout: Duration = 2.0,
        retry: Backoff = BACKOFF,
        max_connections: int | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        sentinel_credentials: Credentials | None = None,
        max_ttl: Duration = "2m",
        restart_guard: bool = True,
        spin: bool = True,
        **unknown: Never,
    ) -> None:
        given = {word: value for word, value in locals().items() if word not in ("self", "__class__", "unknown")}
        if unknown:
            raise unknown_options(type(self).__name__, unknown, given)
        self._open(Settings.checked(**given))

    @property
    def cohort_lock_type(self) -> Any:
        return self._backend.cohort_lock_type

    @property
    def rwlock_type(self) -> Any:
        from holdtight.sync.kinds import ReadWriteLock

        return ReadWriteLock

    @property
    def semaphore_type(self) -> Any:
        return self._backend.semaphore_type

    def _open(self, settings: Settings) -> None:
        from holdtight.sync.backend import backend_of
        from holdtight.sync.pool import Transport

        super()._open(settings)
        self._backend = backend_of(self.place, settings, self)
        self.lock_type = self._backend.lock_type
        self.groups = self._backend.groups
        # A place that answers at once has no connections to limit.
        most = None if self.place.in_process else settings.max_connections
        self.transport = self._backend.transport() or Transport(
            self.place, connect_timeout=settings.connect_timeout, max_connections=most, spin=settings.spin
        )
        self._watch(self.groups.let_go if self.groups is not None else bool, "use a with block, call close()")

    def __enter__(self) -> Locks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Waiters in other threads get the RuntimeError that new calls get, at once; a request
        under way has its two seconds to be answered. Unfinished requests are undone. Held leases stay: they are renewed
        and can be released.

        Example:
            >>> locks = Locks("memory://")
            >>> locks.close()
        """
        if self.closed:
            return
        self._close()
        link = self.transport.take_idle() if self.client.recorded_until and self.place.record_is_idle else None
        self.transport.close()
        if self.groups is not None:
            self.groups.close()
        if self._stand_in is not None:
            self._stand_in.close()
        if link is not None:
            from holdtight.base.plan import LinkDown

            self.client.recorded_until = 0.0
            try:
                link.call(self.store.removal_request(), 0.5)
            except LinkDown:
                pass  # the record expires
            self.transport.scrap(link)

    def _driver(self) -> Driver | FanDriver:
        return self._backend.driver(self.transport)

    def run(self, plan: Plan[R], name: str) -> R:
        """Runs a plan that is not an acquisition, and converts its errors into public exceptions."""
        from holdtight.base.plan import LinkDown, ServerSaid

        try:
            with self._driver() as driver:
                return driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self.meaning(error, name) from error

    def rwlock(self, name: str, **options: Unpack[LockOptions]) -> ReadWriteLock:
        """Returns a read-write lock: its `.read()` and its `.write()` each return a lock. Readers share it, a writer
        excludes all others; first come, first served. The options, those of `lock` without `cohort`, hold for both.

        Raises TypeError or ValueError for a name or option that is not allowed.

        Example:
            >>> book = locks.rwlock("book", ttl="10s")
            >>> with book.write(wait=5) as lease:
            ...     reader = lease.downgrade()
            >>> book.locked()
            False
        """
        made: ReadWriteLock = self._rwlock(name, options)
        return made

    def semaphore(self, name: str, *, permits: int, **options: Unpack[SemaphoreOptions]) -> Semaphore:
        """Returns a semaphore: at most `permits` are held at a time. Every request brings its own limit; the server
        stores none. The options are those of `lock` without `reentrant` and `cohort`.

        Raises TypeError or ValueError for a name or option that is not allowed, NotSupported on a quorum.

        Example:
            >>> seats = locks.semaphore("seats", permits=3)
            >>> with seats as one, seats.acquire(2) as two:
            ...     print(seats.try_acquire())
            None
        """
        made: Semaphore = self._semaphore(name, permits, options)
        return made

    def multi(
        self,
        *names_or_locks: str | Lock | Multi,
        **options: Unpack[LockOptions],
    ) -> Multi:
        """Returns several locks as one: all or nothing, always taken in one order, so that two of them never wait for
        each other. `wait` is for all of them together; the other options, those of `lock` without `cohort`, are for
        parts given by name.

        Raises TypeError or ValueError for a part or option that is not allowed.

        Example:
            >>> with locks.multi("account:1", "account:2", wait=5) as lease:
            ...     print(sorted(lease.fences))
            ['account:1', 'account:2']
        """
        from holdtight.clients.multi import multi_of  # here: many programs take no two locks at once
        from holdtight.sync.multi import Multi

        return Multi(self, *multi_of(self, names_or_locks, options))

    def inspect(self, name: str) -> LockInfo:
        """Reads the holders of this name, and its waiters in order. `print()` shows them as a table.

        Raises Unavailable; TypeError or ValueError for a name that is not allowed.

        Example:
            >>> with locks.lock("order:42", label="checkout"):
            ...     print(locks.inspect("order:42").holders[0].label)
            checkout
        """
        check_name(name)
        return self.run(self._look(name), name)

    def list(self, pattern: str = "*") -> Iterator[LockInfo]:
        """Goes through all locks in this namespace that are held or waited for, each as `inspect` shows it, in no
        order. A lock that is held all the while is never left out; others may be.

        `pattern` is that of `fnmatch.fnmatchcase`: `*`, `?`, `[abc]`. Reads some hundreds at a time, as the loop goes
        on, and looks at every key of the database.

        Raises Unavailable; TypeError or ValueError for a pattern that is not allowed.

        Example:
            >>> with locks.lock("order:42"), locks.lock("invoice:7"):
            ...     print([info.name for info in locks.list("order:*")])
            ['order:42']
        """
        return self._pages(self._listing(pattern))

    def _pages(self, listing: Any) -> Iterator[LockInfo]:
        while not listing.done:
            yield from self.run(listing.page(), "")

    def force_release(
        self, name: str, *, reason: str, by: str | None = None, owner: str | None = None
    ) -> AuditRecord | None:
        """Takes the lock away from its holders, and gives it to the next in line. The holders learn of it: their leases
        are lost with `LossReason.FORCED`. But a body that does not look goes on: shut it out at the resource with the
        record's `fence`.

        Returns the record of it, which `audit` keeps; None if nothing is held.

        Options:
            reason: why, up to 500 bytes.
            by: who does it, up to 128 bytes. Default: the user of this process and the machine.
            owner: takes it from this holder only, as `inspect` shows it: one of many readers, or of many permits.

        Raises Unavailable, NotPermitted; QuorumNotReached unless a majority of a quorum does it; TypeError or
        ValueError for an argument that is not allowed.

        Example:
            >>> lease = locks.lock("nightly").acquire()
            >>> record = locks.force_release("nightly", reason="hangs since 4:12")
            >>> record.fence > lease.fence
            True
            >>> lease.release()
            Traceback (most recent call last):
                ...
            holdtight.errors.NotOwner: ...
        """
        return self.report_forced(self.run(self._force(name, reason, by, owner), name))

    def audit(self, limit: int = 100, *, name: str | None = None) -> builtins.list[AuditRecord]:
        """The records of what operators did, newest first: up to `limit`, of all names or of one. The server keeps
        about a thousand, for 90 days after the last.

        Raises Unavailable, NotPermitted; TypeError or ValueError for an argument that is not allowed.

        Example:
            >>> [record.reason for record in locks.audit(1, name="payroll")]
            []
        """
        return self.run(self._audit(limit, name), name or "")

    def doctor(self) -> builtins.list[Finding]:
        """Examines the server, or each node of a quorum: whether it can be reached, whether the user has all rights,
        and settings that endanger locks. Never raises for what it finds, leaves no key, and takes 3 seconds at most.

        Returns what is wrong or unusual, each a `Finding` with what to change; an empty list if all is well.

        Example:
            >>> for finding in locks.doctor():
            ...     print(finding)
        """
        return self.run(self._doctor(), "")

    def bless(self) -> dict[str, str]:
        """For a quorum: the operator vouches that no lease was held when the nodes last started, so they vote at once.
        Each node keeps a record of it: see `audit`.

        Returns the outcome of each node. Raises QuorumNotReached unless a majority confirms, NotSupported without a
        quorum or its restart guard.

        Example:
            >>> locks.bless()
            Traceback (most recent call last):
                ...
            holdtight.errors.NotSupported: ...
        """
        return self.run(self._bless(), "")

    def adopt(
        self,
        text: str,
        *,
        ttl: Duration | Unset = UNSET,
        label: str | Unset | None = UNSET,
        **unknown: Never,
    ) -> Lease:
        """Takes over a lock that `lease.detach()` has left, under a new owner and a higher fence. `ttl` and `label` are
        those of `lock`.

        Raises LeaseLost if it is too late, Unavailable, NotSupported on a quorum, RuntimeError once closed; TypeError
        or ValueError if `text` does not come from `detach()`.

        Example:
            >>> text = locks.lock("order:42").acquire().detach(ttl="5s")
            >>> with locks.adopt(text) as lease:
            ...     print(lease.name)
            order:42
        """
        if unknown:
            raise unknown_options("adopt", unknown, ("ttl", "label"))
        from holdtight.base.identity import identity
        from holdtight.core.ending import adopt
        from holdtight.grants.lease import Detached

        detached = Detached.read(text)
        self.check_open()
        self.place.check_supports("adopt", detached.name)
        lock = self.lock(detached.name, ttl=ttl, label=label, cohort=False)
        owner = self.client.owner()
        plan = adopt(lock.prepared, detached.owner, owner, clock=self.place.clock, acks=self.place.acks)
        grant = self.run(plan, detached.name)
        lease = lock.granted(owner, grant.fence, grant.sent, 0, identity(), grant.acks)
        self.events.refresh()
        lease.tell(self.report_quick_grant, lease.tenure, grant.sent)
        return lease
