"""`AsyncLocks`: a client for asyncio code."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdtight.aio.awaiting import gives_a_lease
from holdtight.aio.jobs import AsyncJobs
from holdtight.aio.per_loop import PerLoop, let_go
from holdtight.base.clock import BACKOFF, DRIFT
from holdtight.base.identity import identity
from holdtight.base.names import check_name
from holdtight.base.plan import LinkDown, Plan, ServerSaid
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.client import BaseLocks
from holdtight.config.settings import UNSET, Settings, unknown_options
from holdtight.grants.lease import Detached

if TYPE_CHECKING:
    import builtins  # of which `list` is hidden below by the method
    import ssl
    from collections.abc import AsyncIterator, Iterable, Mapping
    from types import TracebackType
    from typing import Never, Unpack

    from holdtight.aio.driver import Driver
    from holdtight.aio.kinds import AsyncReadWriteLock, AsyncSemaphore
    from holdtight.aio.lease import AsyncLease
    from holdtight.aio.lock import AsyncLock
    from holdtight.aio.multi import AsyncMulti
    from holdtight.aio.quorum_driver import FanDriver
    from holdtight.aio.transport import Transport
    from holdtight.base.clock import Backoff, Drift
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.base.values import LockInfo
    from holdtight.config.options import Credentials, Duration, LockOptions, OnUnavailable, SemaphoreOptions, Target
    from holdtight.config.profiles import Profile, Unset

__all__ = ["AsyncLocks"]

R = TypeVar("R")


class AsyncLocks(BaseLocks["AsyncLock"], AsyncJobs, PerLoop, AsyncOnly):
    """A client for asyncio code: locks on one server, a cluster or a quorum. Works on several event loops, also at the
    same time. Make one and keep it: `await aclose()` it at the end, or use it in an `async with`.

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
        max_connections: has no effect: all tasks of an event loop share one connection. Default None.
        tls: an `ssl.SSLContext` for connections to the server, in place of the TLS settings of the URL. Default None.
        credentials: a password, (user, password), or a callable that gives either and is called at every connect.
            Default None: those of the URL.
        sentinel_credentials: the same for the Sentinels of a `redis+sentinel://` target, which have users of their own.
            Default None: no login.
        max_ttl: of a quorum: the longest ttl that its clients may ask for. A node that restarts keeps out of votes for
            that long. All clients of a quorum must agree. Default 2 minutes.
        restart_guard: of a quorum: whether a node that restarts keeps out of votes for `max_ttl`. Default True.
        spin: has no effect: an event loop does not poll. Default True.

    Raises TypeError or ValueError for an option that is not allowed, NotSupported for one that would be unsafe here.
    Does not connect: the first acquisition does.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://", ttl="10s") as locks:
        ...         async with locks.lock("order:42", wait=5) as lease:
        ...             print(lease.name, lease.lost)
        >>> asyncio.run(main())
        order:42 False

        >>> # Every verb that asks the server is awaited.
        >>> async def verbs():
        ...     locks = AsyncLocks("memory://")
        ...     lock = locks.lock("order:42")
        ...     lease = await lock.acquire(wait=5)
        ...     print(await lock.locked(), await lock.try_acquire(), (await lock.inspect()).waiting)
        ...     await lease.renew("1m")
        ...     text = await lease.detach("5s")
        ...     async with await locks.adopt(text) as lease:
        ...         print(await lease.wait_lost(0.01))
        ...     async with lock.hold(wait=5):
        ...         print([info.name async for info in locks.list("order:*")])
        ...     both = await locks.multi("a", "b").acquire()
        ...     await both.release()
        ...     async with locks.rwlock("book").write() as writing:
        ...         await writing.downgrade()
        ...     async with locks.semaphore("printers", permits=2):
        ...         print((await locks.inspect("printers")).locked)
        ...     stuck = await lock.acquire()
        ...     record = await locks.force_release("order:42", reason="hangs")
        ...     print(record == (await locks.audit())[0], await stuck.wait_lost(5), await locks.doctor())
        ...     async with locks.leader("poller") as term:
        ...         await term.proclaim("10.0.0.5:80")
        ...         await term.resign()
        ...
        ...     @locks.synchronized("order:{number}")
        ...     async def ship(number):
        ...         return f"order {number} ships"
        ...
        ...     print(await ship(42))
        ...
        ...     @locks.once("billing:{month}", at_least="1h")
        ...     async def bill(month):
        ...         return f"{month} is billed"
        ...
        ...     print(await bill("May"))
        ...
        ...     @locks.single_flight("report:{number}", ttl=60)
        ...     async def report(number):
        ...         return number * 2
        ...
        ...     print(await report(21))
        ...     await locks.aclose()
        >>> asyncio.run(verbs())
        True None 0
        False
        ['order:42']
        True
        True True []
        order 42 ships
        May is billed
        42
    """

    public = (*BaseLocks.public, "aclose")

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
        return self._backend.cohort_lock_type()

    @property
    def rwlock_type(self) -> Any:
        from holdtight.aio.kinds import AsyncReadWriteLock

        return AsyncReadWriteLock

    @property
    def semaphore_type(self) -> Any:
        return self._backend.semaphore_type()

    def _open(self, settings: Settings) -> None:
        from holdtight.aio.backend import backend_of

        super()._open(settings)
        self._backend = backend_of(self.place, settings, self)
        self.lock_type = self._backend.lock_type
        self.open_loops(self.place, settings.connect_timeout)
        self._watch(partial(let_go, self._transports, self._backend.homes), "use an async with block, call aclose()")

    def _others(self) -> Iterable[PerLoop]:
        return self._backend.homes()

    def _new_transport(self, loop: asyncio.AbstractEventLoop) -> Transport:
        return self._backend.new_transport(self.place, loop, connect_timeout=self.settings.connect_timeout)

    def after_fork(self) -> None:
        super().after_fork()
        self.abandon_loops()

    async def __aenter__(self) -> AsyncLocks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Waiting tasks get the RuntimeError that new calls get, at once; a connection attempt
        under way has its two seconds to end. Unfinished requests are undone. Refreshes of `single_flight` in the
        background are cancelled, and have two seconds to end. Held leases stay: they are renewed and can be
        released."""
        if self.closed:
            return
        self._close()
        self.refuse_waiters()
        try:
            if self._flights is not None:
                await self._flights.ended()
            if self._stand_in is not None:
                await self._stand_in.aclose()
            connection = self.transport().ready()
            if connection is not None and self.client.recorded_until and self.place.record_is_idle:
                from holdtight.aio.transport import ignore

                self.client.recorded_until = 0.0
                asked = connection.ask(self.store.removal_request(), 0.5)
                asked.add_done_callback(ignore)
                await asyncio.wait([asked])
        finally:
            self.close_loops()  # also when cancelled: a second aclose() does nothing

    def discard(self) -> None:
        """Closes when the loops run no more, as at the end of a test. Sends nothing to the server."""
        self._close()
        self.discard_loops()

    def _driver(self) -> Driver | FanDriver:
        return self._backend.driver(self.transport())

    async def run(self, plan: Plan[R], name: str) -> R:
        """Runs a plan that is not an acquisition, and converts its errors into public exceptions."""
        try:
            with self._driver() as driver:
                return await driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self.meaning(error, name) from error

    def rwlock(self, name: str, **options: Unpack[LockOptions]) -> AsyncReadWriteLock:
        """Returns a read-write lock: its `.read()` and its `.write()` each return a lock. Readers share it, a writer
        excludes all others; first come, first served. The options, those of `lock` without `cohort`, hold for both.

        Raises TypeError or ValueError for a name or option that is not allowed.
        """
        made: AsyncReadWriteLock = self._rwlock(name, options)
        return made

    def semaphore(self, name: str, *, permits: int, **options: Unpack[SemaphoreOptions]) -> AsyncSemaphore:
        """Returns a semaphore: at most `permits` are held at a time. Every request brings its own limit; the server
        stores none. The options are those of `lock` without `reentrant` and `cohort`.

        Raises TypeError or ValueError for a name or option that is not allowed, NotSupported on a quorum.
        """
        made: AsyncSemaphore = self._semaphore(name, permits, options)
        return made

    def multi(
        self,
        *names_or_locks: str | AsyncLock | AsyncMulti,
        **options: Unpack[LockOptions],
    ) -> AsyncMulti:
        """Returns several locks as one: all or nothing, always taken in one order, so that two of them never wait for
        each other. `wait` is for all of them together; the other options, those of `lock` without `cohort`, are for
        parts given by name.

        Raises TypeError or ValueError for a part or option that is not allowed.
        """
        from holdtight.aio.multi import AsyncMulti  # here: many programs take no two locks at once
        from holdtight.clients.multi import multi_of

        return AsyncMulti(self, *multi_of(self, names_or_locks, options))

    async def inspect(self, name: str) -> LockInfo:
        """Reads the holders of this name, and its waiters in order. `print()` shows them as a table.

        Raises Unavailable; TypeError or ValueError for a name that is not allowed.
        """
        check_name(name)
        return await self.run(self._look(name), name)

    def list(self, pattern: str = "*") -> AsyncIterator[LockInfo]:
        """Goes through all locks in this namespace that are held or waited for, each as `inspect` shows it, in no
        order: `async for info in locks.list("order:*")`. A lock that is held all the while is never left out; others
        may be.

        `pattern` is that of `fnmatch.fnmatchcase`: `*`, `?`, `[abc]`. Reads some hundreds at a time, as the loop goes
        on, and looks at every key of the database.

        Raises Unavailable; TypeError or ValueError for a pattern that is not allowed.
        """
        return self._pages(self._listing(pattern))

    async def _pages(self, listing: Any) -> AsyncIterator[LockInfo]:
        while not listing.done:
            for info in await self.run(listing.page(), ""):
                yield info

    async def force_release(
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
        """
        return self.report_forced(await self.run(self._force(name, reason, by, owner), name))

    async def audit(self, limit: int = 100, *, name: str | None = None) -> builtins.list[AuditRecord]:
        """The records of what operators did, newest first: up to `limit`, of all names or of one. The server keeps
        about a thousand, for 90 days after the last.

        Raises Unavailable, NotPermitted; TypeError or ValueError for an argument that is not allowed.
        """
        return await self.run(self._audit(limit, name), name or "")

    async def doctor(self) -> builtins.list[Finding]:
        """Examines the server, or each node of a quorum: whether it can be reached, whether the user has all rights,
        and settings that endanger locks. Never raises for what it finds, leaves no key, and takes 3 seconds at most.

        Returns what is wrong or unusual, each a `Finding` with what to change; an empty list if all is well.
        """
        return await self.run(self._doctor(), "")

    async def bless(self) -> dict[str, str]:
        """For a quorum: the operator vouches that no lease was held when the nodes last started, so they vote at once.
        Each node keeps a record of it: see `audit`.

        Returns the outcome of each node. Raises QuorumNotReached unless a majority confirms, NotSupported without a
        quorum or its restart guard.
        """
        return await self.run(self._bless(), "")

    @gives_a_lease
    async def adopt(
        self,
        text: str,
        *,
        ttl: Duration | Unset = UNSET,
        label: str | Unset | None = UNSET,
        **unknown: Never,
    ) -> AsyncLease:
        """Takes over a lock that `lease.detach()` has left, under a new owner and a higher fence. `ttl` and `label` are
        those of `lock`.

        Raises LeaseLost if it is too late, Unavailable, NotSupported on a quorum, RuntimeError once closed; TypeError
        or ValueError if `text` does not come from `detach()`.
        """
        if unknown:
            raise unknown_options("adopt", unknown, ("ttl", "label"))
        from holdtight.core.ending import adopt

        detached = Detached.read(text)
        self.check_open()
        self.place.check_supports("adopt", detached.name)
        lock = self.lock(detached.name, ttl=ttl, label=label, cohort=False)
        owner = self.client.owner()
        plan = adopt(lock.prepared, detached.owner, owner, clock=self.place.clock, acks=self.place.acks)
        grant = await self.run(plan, detached.name)
        lease = lock.granted(self.transport(), owner, grant.fence, grant.sent, 0, identity(), grant.acks)
        self.events.refresh()
        await lease.tell(self.report_quick_grant, lease.tenure, grant.sent)
        return lease
