"""The base class of `Locks` and `AsyncLocks`: everything that neither blocks nor awaits."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdtight.base import process
from holdtight.base.names import PLAIN_NAME, check_name
from holdtight.base.public import PublicClient
from holdtight.base.recent import Recent
from holdtight.base.values import Kind
from holdtight.clients.outside import Outside
from holdtight.clients.reporting import Reports
from holdtight.config.profiles import profile_for
from holdtight.config.settings import LOCK_OPTIONS, UNSET, Options, refuse_monkey_patches, unknown_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Never

    from holdtight.base.identity import Identity
    from holdtight.base.plan import LinkDown, Plan, ServerSaid
    from holdtight.base.values import LockInfo
    from holdtight.clients.cohort_line import Cohort
    from holdtight.clients.lock import BaseLock
    from holdtight.clients.terms import LockTerms
    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset
    from holdtight.config.settings import Settings
    from holdtight.core.deadlock import Tally
    from holdtight.errors import LockError
    from holdtight.grants.tenure import Tenure
    from holdtight.stores.boundary import Place

__all__ = ["BaseLocks"]

MOST_TAKEN = 4096
"""Leases from `acquire()` that a client remembers, to warn of a thread or task that waits for itself."""

L = TypeVar("L", bound="BaseLock")
_Given = tuple[Any, Any, Any, Any, Any, Any, Any, Any]


class BaseLocks(Reports, Outside, PublicClient, Generic[L]):
    """A client: one namespace on one server."""

    closed: bool = False
    unpickled = False
    """Created by unpickling a lock. No caller knows that it must be closed, so dropping it gives no warning."""
    _finalizer: weakref.finalize[..., object] | None = None
    lock_type: Any
    cohort_lock_type: Any
    rwlock_type: Any
    semaphore_type: Any

    def _open(self, settings: Settings) -> None:
        from holdtight.base.event_bus import Events
        from holdtight.clients.loading import place_of, runtime_of, verbs_for
        from holdtight.stores.client import Client

        refuse_monkey_patches()
        self.settings = settings
        here = runtime_of(settings)
        self.client = Client(settings.namespace, here.clock)
        self.place = place_of(settings, self.client, here)
        self.store = self.place.store
        self.verbs = verbs_for(self.place)
        self.events = Events(here.tell)
        for place in self._places():
            place.refreshers.append(self.events.refresh)
            place.tell_node = self.events.tell_node
            place.tell_failover = self.events.tell_failover
        self._kept: Recent[object, Any] = Recent()
        """Lock objects that `lock` did not make."""
        self._terms: Recent[object, LockTerms] = Recent()
        """By the options as they were given, or by Options."""
        nothing = object()
        self._last_terms: _Given = (nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
        """The terms of the last lock, and the exact options that they are for. Unused with profiles."""
        self._recent: Recent[str, _Given] = Recent()
        """Per name, the last lock returned and its exact arguments: a loop passes the same objects every time."""
        self._taken: dict[str, tuple[Tenure, object]] = {}
        self._waits: Any = None
        self._deadlocks: Tally | None = None
        self._stand_in: Any = None
        self._cohort: Cohort | None = None
        self._flights: Any = None
        self.companions: set[Any] = set()
        """Blocking clients that `close` closes too."""
        self.closed = False
        process.tell_of_fork(self)
        with _sharing:
            _shared.setdefault((type(self), settings), self)

    def _watch(self, let_go: Callable[[], object], advice: str) -> None:
        """Closes the connections when a client is garbage-collected without having been closed."""
        if not self.place.in_process:
            from holdtight.grants.leak_warning import watch_client

            self._finalizer = watch_client(self, self._places(), let_go, "" if self.unpickled else advice)

    def _places(self) -> Sequence[Place]:
        """The places with connections of their own: one per node for a quorum."""
        return cast("Sequence[Place]", getattr(self.place, "nodes", None)) or (self.place,)

    def after_fork(self) -> None:
        self.place.renew_identity()
        self._cohort = None

    def lock(
        self,
        name: str,
        *,
        ttl: Duration | Unset = UNSET,
        wait: Duration | Unset | None = UNSET,
        reentrant: bool = False,
        renew: bool | Unset = UNSET,
        max_hold: Duration | Unset | None = UNSET,
        label: str | Unset | None = UNSET,
        cohort: bool | Unset = UNSET,
        **unknown: Never,
    ) -> L:
        """Returns an exclusive lock under this name. Sends nothing: a lock is configuration, cheap to make and safe to
        share.

        `rwlock(name).write()` is the same lock. Names are texts of up to 512 bytes of UTF-8.

        Options:
            ttl: how long the server keeps the lock if this process dies. It is renewed while held.
            wait: how long `acquire` and `with` wait for it: None for ever, 0 not at all.
            reentrant: whether a thread or task that holds it may acquire it again, under the same fence. Default False.
            renew: False never renews: the lease ends with its ttl, which may then be as short as 10 ms. Default True.
            max_hold: the lease is lost after this time even if it was renewed; None sets no limit.
            label: a text for people who inspect the lock.
            cohort: whether the threads or tasks of this client that wait for the lock pass it along among themselves,
                for up to 5 ms at a time and without the server. Makes a name that many of them want many times faster.
                Each lease has its own, higher fence. Not on a quorum. Default False.

            Options that are not given come from the name's profile, then from the client.

        Raises TypeError or ValueError for a name or option that is not allowed.

        Example:
            >>> lock = locks.lock("order:42", ttl="10s", wait=5)
            >>> with lock as lease:
            ...     lease.check()
        """
        recent = self._recent
        try:
            latest = recent.young.get(name)
            if latest is None and name in recent.older:
                latest = recent.get(name)
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
            and latest[7] is cohort
            and not unknown
        ):
            return cast(L, latest[0])
        if unknown:
            raise unknown_options("lock", unknown, (*LOCK_OPTIONS, "cohort"))
        if name.__class__ is not str or not 0 < len(name) <= PLAIN_NAME or not name.isprintable():
            check_name(name)
        last = self._last_terms
        if (
            last[1] is ttl
            and last[2] is wait
            and last[3] is label
            and last[4] is max_hold
            and last[5] is reentrant
            and last[6] is renew
            and last[7] is cohort
        ):
            terms = last[0]  # a loop over new names passes the same options every time
        else:
            terms = self._terms_for(name, ttl, wait, reentrant, renew, max_hold, label, cohort)
            if not self.settings.profiles:
                self._last_terms = (terms, ttl, wait, label, max_hold, reentrant, renew, cohort)
        made: L = terms.lock_type(self, name, terms)
        if latest is not None:
            made.prepared.wanted = latest[0].prepared.wanted  # of the name, whatever the options
        recent.put(name, (made, ttl, wait, label, max_hold, reentrant, renew, cohort))
        return made

    def _terms_for(
        self, name: str, ttl: Any, wait: Any, reentrant: Any, renew: Any, max_hold: Any, label: Any, cohort: Any
    ) -> LockTerms:
        """Checks the options, unless the same ones were checked before."""
        # The key includes the types, because True == 1 == 1.0 and True is not a duration.
        kinds = tuple(each.__class__ for each in (ttl, wait, max_hold, reentrant, renew, cohort))
        profile = profile_for(self.settings.profiles, name) if self.settings.profiles else None
        key = (ttl, wait, reentrant, renew, max_hold, label, cohort, kinds, profile)
        terms: LockTerms | None = _found(self._terms, key)
        if terms is None:
            given = {"ttl": ttl, "wait": wait, "reentrant": reentrant, "renew": renew, "max_hold": max_hold}
            options = Options.checked(self.settings, name, **given, label=label, cohort=cohort)
            if options.cohort:
                self.place.check_supports("cohort", name)
            terms = self.terms_of(options)
            _keep(self._terms, key, terms)
        return terms

    def terms_of_kind(self, name: str, kind: Kind, given: Mapping[str, Any], permits: object = 0) -> LockTerms:
        """As `_terms_for`, for the locks of a read-write lock or a semaphore."""
        profile = profile_for(self.settings.profiles, name) if self.settings.profiles else None
        key = (kind, permits, permits.__class__, profile, *given.items(), *map(type, given.values()))
        terms: LockTerms | None = _found(self._terms, key)
        if terms is None:
            Options.check_words("semaphore" if kind is Kind.PERMITS else "rwlock", given)
            options = Options.checked(self.settings, name, kind=kind, permits=permits, **given)
            terms = self.terms_of(options)
            _keep(self._terms, key, terms)
        return terms

    def terms_of(self, options: Options) -> LockTerms:
        """The same object for equal options, so that many names share it."""
        found: LockTerms | None = self._terms.get(options)
        if found is None:
            from holdtight.clients.terms import LockTerms

            found = self._terms.put(options, LockTerms(self, options))
        return found

    def _rwlock(self, name: str, given: Mapping[str, Any]) -> Any:
        """Returns the same object for the same arguments, as `lock` does."""
        key = ("rwlock", name, *given.items(), *map(type, given.values()))
        made = _found(self._kept, key)
        if made is None:
            check_name(name)
            made = _keep(self._kept, key, self.rwlock_type(self, name, given))
        return made

    def _semaphore(self, name: str, permits: object, given: Mapping[str, Any]) -> Any:
        key = ("semaphore", name, permits, permits.__class__, *given.items(), *map(type, given.values()))
        made = _found(self._kept, key)
        if made is None:
            check_name(name)
            self.place.check_supports("semaphore", name)
            terms = self.terms_of_kind(name, Kind.PERMITS, given, permits)
            made = _keep(self._kept, key, self.semaphore_type(self, name, terms))
        return made

    def keep_sibling(self, lock: BaseLock, options: Options) -> Any:
        """Returns a lock object of the same type and name with other options; cached."""
        key = (type(lock), lock.name, options)
        return self._kept.get(key) or self._kept.put(key, type(lock)(self, lock.name, self.terms_of(options)))

    def took(self, name: str, tenure: Tenure, who: Identity) -> None:
        """Records that `who` holds this name through `acquire()`, outside a block. Keeps the latest lease per name."""
        taken = self._taken
        if len(taken) >= MOST_TAKEN:
            alive = {known: each for known, each in list(taken.items()) if each[0].alive}
            taken = self._taken = alive if len(alive) < MOST_TAKEN // 2 else {}
        taken[name] = tenure, who.mark

    def taken_by(self, name: str, who: Identity) -> Tenure | None:
        """The live lease that this thread or task got from `acquire()`, or None if there is none or it is not known."""
        tenure, mark = self._taken.get(name, (None, None))
        if tenure is None or mark != who.mark or tenure.stand_in is not None or tenure.epoch != process.current.epoch:
            return None
        return tenure if tenure.alive else None

    @property
    def waits(self) -> Any:
        """The requests behind the search for deadlocks."""
        if self._waits is None:
            self._waits = self.store.waits
        return self._waits

    @property
    def deadlocks(self) -> Tally:
        """Counts the searches for deadlocks by waiters of this client, and the deadlocks found."""
        if self._deadlocks is None:
            from holdtight.core.deadlock import Tally

            self._deadlocks = Tally()
        return self._deadlocks

    @property
    def cohort(self) -> Cohort:
        """The local lines of this client's locks with `cohort=True`."""
        if self._cohort is None:
            from holdtight.clients.cohort_line import Cohort  # loaded with the first such lock object

            fresh = Cohort(self.place.runtime)
            with _sharing:
                if self._cohort is None:  # pyright: ignore[reportUnnecessaryComparison]
                    self._cohort = fresh
        return self._cohort

    def flights(self, make: Callable[[], Any]) -> Any:
        """What this client's jobs under `single_flight` share: see sync/flights.py and aio/flights.py."""
        with _sharing:
            self._flights = self._flights or make()
        return self._flights

    @property
    def stand_in(self) -> Any:
        """The in-memory client that takes over when the server cannot be reached."""
        if self._stand_in is None:
            from holdtight.clients.degraded import stand_in_settings

            self._stand_in = self.twin(stand_in_settings(self))
        return self._stand_in

    def twin(self, settings: Settings | None = None) -> Any:
        """Another client with the same events, and the same settings unless others are given."""
        made = type(self).__new__(type(self))
        made.unpickled = True  # no warning if an interrupt drops it: no code of the user can close it
        made._open(settings or self.settings)
        made.events = self.events
        made.place.share_events(self.events)
        return made

    def _look(self, name: str) -> Plan[LockInfo]:
        prepared: Any = self.lock(name).prepared
        if self._cohort is not None:
            prepared = self._cohort.inspected(prepared, self)
        return self.verbs.look(self.place, prepared, self._entered())

    def check_open(self) -> None:
        """Raises RuntimeError on a closed client. Called before acquiring only: a closed client may still release."""
        if self.closed:
            raise RuntimeError(f"{self!r} is closed")

    def _close(self) -> None:
        self.closed = True
        if self._finalizer is not None:
            self._finalizer.detach()
        with _sharing:
            if _shared.get((type(self), self.settings)) is self:
                del _shared[type(self), self.settings]
        for place in self._places():
            self.place.runtime.keeper.forget(place)
            place.leave()
        for part in filter(None, (self._cohort, self._flights, *self.companions)):
            part.close()

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        """Converts a transport error into a public exception."""
        return self.place.meaning(error, name)

    def marker_of(self, tenure: Tenure) -> int:
        """The marker that a release must carry; 0 once no earlier request can still arrive."""
        return tenure.marker if self.client.server_time(self.place.clock()) * 1000 <= tenure.marker else 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place.display} namespace={self.settings.namespace!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_locks, (type(self), self.settings)


def _found(cache: Recent[object, Any], key: object) -> Any:
    """None if the cache does not have it, or cannot: some arguments that are not allowed cannot be hashed."""
    try:
        return cache.get(key)
    except TypeError:
        return None


def _keep(cache: Recent[object, Any], key: object, made: Any) -> Any:
    try:
        return cache.put(key, made)
    except TypeError:
        return made


_sharing = threading.Lock()
_shared: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def _restore_locks(cls: type[BaseLocks[Any]], settings: Settings) -> Any:
    """In each process, unpickled clients with equal settings are one client."""
    with _sharing:
        found = _shared.get((cls, settings))
    if found is not None:
        return found
    made = cls.__new__(cls)
    made.unpickled = True
    made._open(settings)  # pyright: ignore[reportPrivateUsage]
    return made


def _after_fork() -> None:
    global _sharing
    _sharing = threading.Lock()


process.on_fork(_after_fork)
