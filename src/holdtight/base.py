"""What `Locks` and `AsyncLocks` have in common: everything that neither blocks nor awaits."""

import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from holdtight import process
from holdtight.clock import boottime
from holdtight.core.contend import Asking
from holdtight.errand import Errand
from holdtight.errors import DeadlockDetected, LeaseLost, LockError, LockTimeout, Unavailable
from holdtight.hub import Events
from holdtight.identity import Identity
from holdtight.keeper import keeper
from holdtight.lease import BaseLease
from holdtight.plan import LinkDown, ServerSaid
from holdtight.redis import answers
from holdtight.redis.keys import keys_of
from holdtight.redis.node import Client
from holdtight.redis.store import Prepared, Store
from holdtight.redis.topology import Place
from holdtight.settings import UNSET, Options, Settings, refuse_patched_threads
from holdtight.tenure import Tenure, Terms
from holdtight.values import Claim, Grant, Owner, Wait, check_name, owner_text

if TYPE_CHECKING:
    from holdtight.core.deadlock import Tally, Watch
    from holdtight.redis.waits import Waits

__all__ = ["BaseLock", "BaseLocks"]

CACHED_LOCKS = 4096


class BaseLock:
    """One lock's configuration. Immutable, safe to share, holds no grant."""

    __slots__ = ("_locks", "_name", "key", "options", "prepared", "terms")

    def __init__(self, locks: "BaseLocks[Any]", name: str, options: Options) -> None:
        self._locks: Any = locks
        self._name = name
        self.options = options
        self.prepared: Prepared = locks.store.prepare(Claim(name, options.ttl, options.label))
        self.terms = Terms(self.prepared, locks.place, locks.events, renew=options.renew, max_hold=options.max_hold)
        self.key = (locks, name)

    @property
    def name(self) -> str:
        return self._name

    def see_to(self, lease: BaseLease, who: Identity) -> None:
        """What only some locks ask for."""
        tenure = lease.tenure
        if tenure.hold_until is not None:
            keeper().add(tenure, tenure.since)
        if self.options.reentrant:
            lease.share(who)

    def report_detached(self, tenure: Tenure) -> None:
        self._locks.report_detached(tenure)

    def asking(
        self, owner: Owner, wait: float | None, started: float, who: Identity | None = None, *, or_none: bool
    ) -> Asking:
        """`who` will wait, if need be."""
        locks = self._locks
        return Asking(
            question=self.prepared,
            owner=owner,
            server=locks.place.display,
            started=started,
            wait=wait,
            connect_timeout=locks.settings.connect_timeout,
            retry=locks.settings.retry,
            clock=boottime,
            or_none=or_none,
            watch=self._watch(owner, started, who) if who is not None and who.stack and wait != 0 else None,
        )

    def _watch(self, owner: Owner, started: float, who: Identity) -> "Watch":
        from holdtight.core.deadlock import Watch  # with the first who waits with a lock in hand

        locks: BaseLocks[Any] = self._locks
        namespace, epoch = locks.settings.namespace, process.current.epoch
        blocks: list[Tenure] = [
            lease.tenure for (client, _), lease in who.stack if cast(Any, client).settings.namespace == namespace
        ]

        def held() -> list[Owner]:
            found = (each.owner for each in blocks if each.alive and each.epoch == epoch)
            return list(dict.fromkeys(found))  # one that was entered twice is one grant

        return Watch(
            locks.waits,
            Wait(owner, self._name, who.display(), self.options.label),
            held,
            started=started,
            after=locks.settings.deadlock_after,
            clock=boottime,
            tally=locks.deadlocks,
        )

    def entered_by(self, who: Identity) -> Tenure | None:
        """The tenure to share if this identity holds the lock and may enter again, counted; None if it must ask."""
        in_block = next((lease.tenure for key, lease in reversed(who.stack) if key == self.key), None)
        tenure: Tenure | None = (who.grants.get(self.key) if self.options.reentrant else None) or in_block
        if tenure is None or tenure.ended or tenure.epoch != process.current.epoch:
            return None  # what a forked child finds here is its parent's
        if not self.options.reentrant:
            raise DeadlockDetected.with_self(self._name, who.what)
        if tenure.lost():
            raise LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        tenure.entered += 1
        return tenure

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self.options.ttl:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_lock, (self._locks, self._name, self.options)


L = TypeVar("L", bound=BaseLock)


class BaseLocks(Generic[L]):
    """A client: one namespace on one server."""

    _lock_type: ClassVar[Any]

    def _open(self, settings: Settings) -> None:
        refuse_patched_threads()
        self.settings = settings
        self.client = Client(settings.namespace)
        self.place = Place(settings.target, self.client, settings.tls)
        self.store = Store(
            self.client, server=self.place.display, drift=settings.drift, max_waiters=settings.max_waiters
        )
        self.events = Events()
        self.place.refreshers.append(self.events.refresh)
        self._cache: dict[object, L] = {}
        self._latest_by_name: dict[str, tuple[L, Any, Any, Any, Any, Any, Any]] = {}
        """The lock that a name was last asked for with, and the very arguments: code in a loop gives the same ones."""
        self._waits: Waits | None = None
        self._deadlocks: Tally | None = None
        self.closed = False
        process.tell_of_fork(self)
        with _sharing:
            _shared.setdefault((type(self), settings), self)

    def after_fork(self) -> None:
        self.client.renew_identity()

    def lock(
        self,
        name: str,
        *,
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: bool = False,
        renew: bool = True,
        max_hold: Any = None,
        label: Any = UNSET,
    ) -> L:
        """An exclusive lock under this name, as configuration: nothing is sent."""
        try:
            latest = self._latest_by_name.get(name)
        except TypeError:
            check_name(name)
            raise
        if (
            latest is not None
            and latest[1] is ttl
            and latest[2] is wait
            and latest[3] is label
            and latest[4] is max_hold
            and latest[5] is reentrant
            and latest[6] is renew
        ):
            return latest[0]
        # Types are part of the key because True == 1 == 1.0 and the first is not a duration.
        kinds = (ttl.__class__, wait.__class__, max_hold.__class__, reentrant.__class__, renew.__class__)
        key = (name, ttl, wait, reentrant, renew, max_hold, label, kinds)
        try:
            made = self._cache[key]
            self._latest_by_name[name] = (made, ttl, wait, label, max_hold, reentrant, renew)
            return made
        except (KeyError, TypeError):
            pass
        check_name(name)
        options = Options.checked(
            self.settings, ttl=ttl, wait=wait, reentrant=reentrant, renew=renew, max_hold=max_hold, label=label
        )
        made = cast(L, self._lock_type(self, name, options))
        if len(self._cache) >= CACHED_LOCKS:
            self._cache.clear()
            self._latest_by_name.clear()
        self._cache[key] = made
        return made

    @property
    def waits(self) -> "Waits":
        if self._waits is None:
            from holdtight.redis.waits import Waits

            self._waits = Waits(self.store)
        return self._waits

    @property
    def deadlocks(self) -> "Tally":
        """How often those who wait here have looked for a deadlock, and how many were found."""
        if self._deadlocks is None:
            from holdtight.core.deadlock import Tally

            self._deadlocks = Tally()
        return self._deadlocks

    def _entered(self) -> dict[str, int]:
        """How often each of our own grants is entered, by owner."""
        return {
            owner_text(each.owner): each.entered for each in keeper().charges(self.place) if isinstance(each, Tenure)
        }

    def _close(self) -> None:
        self.closed = True
        with _sharing:
            if _shared.get((type(self), self.settings)) is self:
                del _shared[type(self), self.settings]
        keeper().forget(self.place)

    # What happened, told.

    def report_grant(self, asking: Asking, grant: Grant) -> None:
        if grant.expired is None and not self.events.wanted:
            return
        from holdtight.events import Acquired, PreviousExpired, Waited

        name, owner = asking.question.claim.name, owner_text(asking.owner)
        if grant.expired is not None:
            self.events.emit(PreviousExpired(name, owner, owner_text(grant.expired)))
        if self.events.wanted:
            waited = max(0.0, grant.sent - asking.started)
            if asking.queued:
                self.events.emit(Waited(name, owner, waited, True))
            self.events.emit(Acquired(name, owner, grant.fence, waited))

    def report_failure(self, asking: Asking, error: BaseException) -> None:
        if not self.events.wanted and not isinstance(error, DeadlockDetected):
            return
        from holdtight.events import DeadlockFound, TimedOut, Waited

        name, owner, waited = asking.question.claim.name, owner_text(asking.owner), boottime() - asking.started
        if isinstance(error, DeadlockDetected):
            self.events.emit(DeadlockFound(name, owner, waited, error.cycle))
        if isinstance(error, LockTimeout):
            self.events.emit(TimedOut(name, owner, waited, error.holder.owner if error.holder else None))
        if asking.queued:
            self.events.emit(Waited(name, owner, waited, False))

    def report_quick_grant(self, name: str, owner: Owner, fence: int) -> None:
        from holdtight.events import Acquired

        self.events.emit(Acquired(name, owner_text(owner), fence, 0.0))

    def report_release(self, tenure: Tenure) -> None:
        from holdtight.events import Released

        held = boottime() - tenure.since
        self.events.emit(Released(tenure.name, owner_text(tenure.owner), tenure.fence, held))

    def report_detached(self, tenure: Tenure) -> None:
        if not self.events.wanted:
            return
        from holdtight.events import Detached

        held = boottime() - tenure.since
        self.events.emit(Detached(tenure.name, owner_text(tenure.owner), tenure.fence, held))

    def report_no_release(
        self, prepared: Prepared, tenure: Tenure, error: LinkDown | ServerSaid, marker: int
    ) -> LockError:
        """The server could not be told. The keeper goes on trying for a while; then the ttl ends the grant."""
        from holdtight.events import ReleaseFailed

        step = prepared.withdraw_step(tenure.owner, marker=marker)
        keeper().ask(Errand(self.place, step))
        self.events.emit(ReleaseFailed(tenure.name, owner_text(tenure.owner), tenure.fence, str(error)))
        return self.meaning(error, tenure.name)

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        """One of our errors for what the transport met."""
        if isinstance(error, LinkDown):
            return Unavailable.because(name, self.place.display, error.cause)
        key = keys_of(self.settings.namespace, name).main if name else b""
        return answers.meaning(error, name=name, server=self.place.display, key=key)

    def marker_of(self, tenure: Tenure) -> int:
        """The marker that must go along with a release, 0 once nothing can be on its way any more."""
        return tenure.marker if self.client.server_time(boottime()) * 1000 <= tenure.marker else 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place.display} namespace={self.settings.namespace!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_locks, (type(self), self.settings)


_sharing = threading.Lock()
_shared: "weakref.WeakValueDictionary[Any, Any]" = weakref.WeakValueDictionary()


def _restore_locks(cls: type[BaseLocks[Any]], settings: Settings) -> Any:
    """Unpickled clients of equal settings are one client in each process."""
    with _sharing:
        found = _shared.get((cls, settings))
    if found is not None:
        return found
    made = cls.__new__(cls)
    made._open(settings)  # pyright: ignore[reportPrivateUsage]
    return made


def _restore_lock(locks: BaseLocks[Any], name: str, options: Options) -> Any:
    return locks._lock_type(locks, name, options)  # pyright: ignore[reportPrivateUsage]


def _after_fork() -> None:
    global _sharing
    _sharing = threading.Lock()


process.on_fork(_after_fork)
