"""`AsyncLocks`: a client for asyncio code."""

import asyncio
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from holdtight.aio.awaiting import gives_a_lease
from holdtight.aio.backend import backend_of
from holdtight.aio.driver import Driver
from holdtight.aio.kinds import AsyncReadWriteLock, AsyncSemaphore
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.aio.multi import AsyncMulti
from holdtight.aio.per_loop import PerLoop, let_go
from holdtight.aio.transport import Transport, ignore
from holdtight.base.clock import BACKOFF, DRIFT, Backoff, Drift, Duration
from holdtight.base.identity import identity
from holdtight.base.plan import LinkDown, Plan, ServerSaid
from holdtight.base.values import LockInfo, check_name
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.client import BaseLocks
from holdtight.clients.multi import multi_wait, parts_of
from holdtight.config.profiles import Profile
from holdtight.config.settings import UNSET, Settings
from holdtight.core.ending import adopt
from holdtight.grants.lease import Detached

if TYPE_CHECKING:
    import ssl

    from holdtight.aio.quorum_driver import FanDriver

__all__ = ["AsyncLocks"]

R = TypeVar("R")


class AsyncLocks(BaseLocks[AsyncLock], PerLoop, AsyncOnly):
    """A client for asyncio code: locks on one server or quorum. Cheap to keep; works on several event loops, also at
    the same time."""

    lock_type = AsyncLock
    rwlock_type = AsyncReadWriteLock
    semaphore_type = AsyncSemaphore

    def __init__(
        self,
        target: object = None,
        *,
        namespace: str = "ht",
        ttl: Duration = 30,
        wait: Duration | None = None,
        label: str | None = None,
        profiles: Mapping[str, Profile] | None = None,
        acks: int = 0,
        on_unavailable: str = "raise",
        drift: Drift = DRIFT,
        max_waiters: int = 10_000,
        deadlock_after: Duration = 1.0,
        connect_timeout: Duration = 2.0,
        retry: Backoff = BACKOFF,
        max_connections: int | None = None,
        tls: "ssl.SSLContext | None" = None,
        credentials: Any = None,
        sentinel_credentials: Any = None,
        max_ttl: Duration = "2m",
        restart_guard: bool = True,
    ) -> None:
        given = {word: value for word, value in locals().items() if word not in ("self", "__class__")}
        self._open(Settings.checked(**given))

    def _open(self, settings: Settings) -> None:
        super()._open(settings)
        self._backend = backend_of(self.place)
        self.lock_type = self._backend.lock_type
        self.open_loops(self.place, settings.connect_timeout)
        self._watch(partial(let_go, self._transports), "use an async with block, call aclose()")

    def _new_transport(self, loop: asyncio.AbstractEventLoop) -> Transport:
        return self._backend.new_transport(self.place, loop, connect_timeout=self.settings.connect_timeout)

    def after_fork(self) -> None:
        super().after_fork()
        self.abandon_loops()

    async def __aenter__(self) -> "AsyncLocks":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Waiting tasks get the RuntimeError that new calls get, at once; a connection attempt
        under way has its two seconds to end. Unfinished requests are undone. Held leases stay: they are renewed and can
        be released."""
        if self.closed:
            return
        self._close()
        self.refuse_waiters()
        try:
            if self._stand_in is not None:
                await self._stand_in.aclose()
            connection = self.transport().ready()
            if connection is not None and self.client.recorded_until:
                self.client.recorded_until = 0.0
                asked = connection.ask(self.store.removal_request(), 0.5)
                asked.add_done_callback(ignore)
                await asyncio.wait([asked])
        finally:
            self.close_loops()  # also when cancelled: a second aclose() does nothing

    def discard(self) -> None:
        """Closes when the loops run no more, as at the end of a test. Sends nothing to the server."""
        self._close()
        for transport in self._transports:
            transport.close()
        self._transports = []
        self.latest = None

    def _driver(self) -> "Driver | FanDriver":
        return self._backend.driver(self.transport())

    async def run(self, plan: Plan[R], name: str) -> R:
        """Runs a plan that is not an acquisition, and converts its errors into public exceptions."""
        try:
            with self._driver() as driver:
                return await driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self.meaning(error, name) from error

    def rwlock(
        self,
        name: str,
        *,
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: bool = False,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> AsyncReadWriteLock:
        """Returns a read-write lock; its `.read()` and `.write()` each return a lock. First come, first served.

        Raises TypeError or ValueError for a name or option that is not allowed.
        """
        made: AsyncReadWriteLock = self._rwlock(
            name, ttl=ttl, wait=wait, reentrant=reentrant, renew=renew, max_hold=max_hold, label=label
        )
        return made

    def semaphore(
        self,
        name: str,
        *,
        permits: int,
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: bool = False,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> AsyncSemaphore:
        """Returns a semaphore of `permits` permits. Each request brings its own limit; the server stores none.

        Raises TypeError or ValueError for a name or option that is not allowed.
        """
        options = {
            "ttl": ttl,
            "wait": wait,
            "reentrant": reentrant,
            "renew": renew,
            "max_hold": max_hold,
            "label": label,
        }
        made: AsyncSemaphore = self._semaphore(name, permits=permits, **options)
        return made

    def multi(
        self,
        *names_or_locks: "str | AsyncLock | AsyncMulti",
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: bool = False,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> AsyncMulti:
        """Returns several locks as one: all or nothing, always taken in one order. Options are for parts given by name.

        Raises TypeError or ValueError for a part or option that is not allowed.
        """
        options = {"ttl": ttl, "reentrant": reentrant, "renew": renew, "max_hold": max_hold, "label": label}
        return AsyncMulti(self, parts_of(self, names_or_locks, options), multi_wait(self, wait))

    async def inspect(self, name: str) -> LockInfo:
        """The holders of this name, and its waiters in order.

        Raises Unavailable; TypeError or ValueError for a name that is not allowed.
        """
        check_name(name)
        return await self.run(self._look(name), name)

    async def bless(self) -> dict[str, str]:
        """For a quorum: the operator vouches that no lease was held when the nodes last started, so they vote at once.

        Returns the outcome of each node. Raises QuorumNotReached unless a majority confirms, NotSupported without a
        quorum or its restart guard.
        """
        return await self.run(self._bless(), "")

    @gives_a_lease
    async def adopt(self, text: str, *, ttl: Any = UNSET, label: Any = UNSET) -> AsyncLease:
        """Takes over a detached lock under a new owner and a higher fence.

        Raises LeaseLost if it is too late, Unavailable, NotSupported on a quorum, RuntimeError once closed; TypeError
        or ValueError if `text` does not come from `detach()`.
        """
        detached = Detached.read(text)
        self.check_open()
        self.place.check_supports("adopt", detached.name)
        lock = self.lock(detached.name, ttl=ttl, label=label)
        owner = self.client.owner()
        grant = await self.run(adopt(lock.prepared, detached.owner, owner, clock=self.place.clock), detached.name)
        lease = lock.granted(self.transport(), owner, grant.fence, grant.sent, 0, identity())
        if self.events.wanted:
            await lease.tell(self.report_quick_grant, detached.name, owner, grant.fence)
        return lease
