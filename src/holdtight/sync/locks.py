"""`Locks`: a client for blocking code."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from holdtight.base.clock import BACKOFF, DRIFT, Backoff, Drift, Duration
from holdtight.base.identity import identity
from holdtight.base.plan import LinkDown, Plan, ServerSaid
from holdtight.base.values import LockInfo, check_name
from holdtight.base.wrong_with import BlockingOnly
from holdtight.clients.client import BaseLocks
from holdtight.clients.multi import multi_wait, parts_of
from holdtight.config.profiles import Profile
from holdtight.config.settings import UNSET, Settings
from holdtight.core.ending import adopt
from holdtight.grants.lease import Detached
from holdtight.sync.backend import backend_of
from holdtight.sync.driver import Driver
from holdtight.sync.kinds import ReadWriteLock, Semaphore
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.sync.multi import Multi
from holdtight.sync.pool import Transport

if TYPE_CHECKING:
    import ssl

    from holdtight.sync.quorum_driver import FanDriver

__all__ = ["Locks"]

R = TypeVar("R")


class Locks(BaseLocks[Lock], BlockingOnly):
    """A client for blocking code: locks on one server or quorum. Cheap to keep, safe to share between threads, survives
    fork."""

    lock_type = Lock
    rwlock_type = ReadWriteLock
    semaphore_type = Semaphore

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
        spin: bool = True,
    ) -> None:
        given = {word: value for word, value in locals().items() if word not in ("self", "__class__")}
        self._open(Settings.checked(**given))

    def _open(self, settings: Settings) -> None:
        super()._open(settings)
        self._backend = backend_of(self.place, settings)
        self.lock_type = self._backend.lock_type
        self.fleet = self._backend.fleet
        # A place that answers at once has no connections to limit.
        most = None if self.place.at_once else settings.max_connections
        self.transport = Transport(
            self.place, connect_timeout=settings.connect_timeout, max_connections=most, spin=settings.spin
        )
        self._watch(self.fleet.let_go if self.fleet is not None else bool, "use a with block, call close()")

    def __enter__(self) -> "Locks":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Waiters in other threads get the RuntimeError that new calls get, at once; a request
        under way has its two seconds to be answered. Unfinished requests are undone. Held leases stay: they are renewed
        and can be released."""
        if self.closed:
            return
        self._close()
        link = self.transport.take_idle() if self.client.recorded_until else None
        self.transport.close()
        if self.fleet is not None:
            self.fleet.close()
        if self._stand_in is not None:
            self._stand_in.close()
        if link is not None:
            self.client.recorded_until = 0.0
            try:
                link.call(self.store.removal_request(), 0.5)
            except LinkDown:
                pass  # the record expires
            self.transport.scrap(link)

    def _driver(self) -> "Driver | FanDriver":
        return self._backend.driver(self.transport)

    def run(self, plan: Plan[R], name: str) -> R:
        """Runs a plan that is not an acquisition, and converts its errors into public exceptions."""
        try:
            with self._driver() as driver:
                return driver.run(plan)
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
    ) -> ReadWriteLock:
        """Returns a read-write lock; its `.read()` and `.write()` each return a lock. First come, first served.

        Raises TypeError or ValueError for a name or option that is not allowed.
        """
        made: ReadWriteLock = self._rwlock(
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
    ) -> Semaphore:
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
        made: Semaphore = self._semaphore(name, permits=permits, **options)
        return made

    def multi(
        self,
        *names_or_locks: "str | Lock | Multi",
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: bool = False,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> Multi:
        """Returns several locks as one: all or nothing, always taken in one order. Options are for parts given by name.

        Raises TypeError or ValueError for a part or option that is not allowed.
        """
        options = {"ttl": ttl, "reentrant": reentrant, "renew": renew, "max_hold": max_hold, "label": label}
        return Multi(self, parts_of(self, names_or_locks, options), multi_wait(self, wait))

    def inspect(self, name: str) -> LockInfo:
        """The holders of this name, and its waiters in order.

        Raises Unavailable; TypeError or ValueError for a name that is not allowed.
        """
        check_name(name)
        return self.run(self._look(name), name)

    def bless(self) -> dict[str, str]:
        """For a quorum: the operator vouches that no lease was held when the nodes last started, so they vote at once.

        Returns the outcome of each node. Raises QuorumNotReached unless a majority confirms, NotSupported without a
        quorum or its restart guard.
        """
        return self.run(self._bless(), "")

    def adopt(self, text: str, *, ttl: Any = UNSET, label: Any = UNSET) -> Lease:
        """Takes over a detached lock under a new owner and a higher fence.

        Raises LeaseLost if it is too late, Unavailable, NotSupported on a quorum, RuntimeError once closed; TypeError
        or ValueError if `text` does not come from `detach()`.
        """
        detached = Detached.read(text)
        self.check_open()
        self.place.check_supports("adopt", detached.name)
        lock = self.lock(detached.name, ttl=ttl, label=label)
        owner = self.client.owner()
        grant = self.run(adopt(lock.prepared, detached.owner, owner, clock=self.place.clock), detached.name)
        lease = lock.granted(owner, grant.fence, grant.sent, 0, identity())
        if self.events.wanted:
            lease.tell(self.report_quick_grant, detached.name, owner, grant.fence)
        return lease
