"""`Locks.single_flight`. recipes/flights.py has the plan of it."""

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdtight.base import process
from holdtight.base.identity import current_work, identity
from holdtight.base.jobs import Peek
from holdtight.base.public import Public
from holdtight.clients.decorating import begun
from holdtight.errors import FlightFailed, LockError, LockTimeout, Unavailable
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.flights import (
    BY_NAME,
    MOST_IN_BACKGROUND,
    Answer,
    Computed,
    FlightTerms,
    Stored,
    to_share,
    waits_for,
)
from holdtight.recipes.joining import Caller, Flight, current_flight
from holdtight.recipes.locking import locks_of_single_owners
from holdtight.recipes.names import Naming
from holdtight.recipes.once import error_text
from holdtight.sync.looking import look

__all__ = ["SingleFlight"]

Compute = Callable[[], Any]


class LocalFlight(Flight):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.done = False
        self.computed: Computed | None = None
        self.sleepers: list[Any] = []
        """Of the threads that wait for it."""


class Registry:
    """The flights of one client that are under way."""

    def __init__(self) -> None:
        self.after_fork()
        process.tell_of_fork(self)

    def after_fork(self) -> None:
        """A child has no thread that could end the flights of its parent."""
        self._changing = threading.RLock()
        self._flights: dict[str, LocalFlight] = {}
        self.in_background = set[object]()

    def close(self) -> None:
        """Nothing can end a thread in the background: it goes on until its value is stored and its lock released."""

    def awaited(self, name: str) -> LocalFlight | None:
        """A flight that everybody has to wait for, if there is one: to look at the server would be in vain."""
        found = self._flights.get(name)
        return found if found is not None and found.absent and not found.landing else None

    def join(self, mine: LocalFlight) -> LocalFlight:
        """The flight of this name that is under way; else `mine`, which the caller must end, whatever happens: an
        interrupt may come before it knows the result."""
        with self._changing:
            return self._flights.setdefault(mine.name, mine)

    def end(self, flight: LocalFlight, computed: Computed | None) -> None:
        """The first call counts. Another one only ends what an interrupt has left undone."""
        with self._changing:
            if not flight.done:
                flight.computed, flight.done = computed, True
            if self._flights.get(flight.name) is flight:
                del self._flights[flight.name]
        for sleeper in list(flight.sleepers):
            sleeper.wake(True)

    def background(self, work: Callable[[], None]) -> bool:
        """Runs it in a thread, unless four are at work. Raises RuntimeError if there can be no more threads."""
        mark = object()

        def run() -> None:
            try:
                work()
            finally:
                self.in_background.discard(mark)

        context = contextvars.copy_context()
        try:
            with self._changing:
                if len(self.in_background) >= MOST_IN_BACKGROUND:
                    return False
                self.in_background.add(mark)
            threading.Thread(target=context.run, args=(run,), name="holdtight-refresh", daemon=True).start()
        except BaseException:
            self.in_background.discard(mark)
            raise
        return True


class SingleFlight(Public):
    """The result of `locks.single_flight(...)`: a decorator, with `get_or_create` for a name without fields."""

    public = ("get_or_create",)

    def __init__(self, locks: Any, name: Any, options: dict[str, Any], given: dict[str, Any]) -> None:
        self._locks = locks
        self._name = name
        self._terms = FlightTerms(locks, **given)
        self._lock_of = locks_of_single_owners(locks, options, name)
        self._registry: Registry = locks.flights(Registry)
        self._wait = waits_for(locks, options)

    def __call__(self, function: Any) -> Any:
        return decorator("single_flight", self._wrap, awaits=False)(function)

    def get_or_create(self, fetch: Callable[[], Any]) -> Any:
        """The value of this name, which `fetch()` computes if it has to be."""
        return self._get(Naming(self._name).of((), {}), lambda: begun(fetch(), fetch))

    def _wrap(self, function: Any) -> Any:
        naming, run, terms = Naming(self._name, function), self._locks.run, self._terms

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._get(naming.of(args, kwargs), lambda: begun(function(*args, **kwargs), function))

        def refresh(*args: Any, **kwargs: Any) -> Any:
            return self._refresh(naming.of(args, kwargs), lambda: begun(function(*args, **kwargs), function))

        def invalidate(*args: Any, **kwargs: Any) -> None:
            name = naming.of(args, kwargs)
            run(terms.drop(name, "gone"), name)

        def expire(*args: Any, **kwargs: Any) -> None:
            name = naming.of(args, kwargs)
            run(terms.drop(name, "stale"), name)

        def peek(*args: Any, **kwargs: Any) -> Peek | None:
            name = naming.of(args, kwargs)
            found: Peek | None = run(terms.peek(name), name)
            return found

        return dressed(call, function, naming, refresh=refresh, invalidate=invalidate, expire=expire, peek=peek)

    def _get(self, name: str, compute: Compute) -> Any:
        until = None if self._wait is None else self._until(name)
        while True:
            flight = self._registry.awaited(name)
            if flight is not None:
                got = self._wait_for(flight, until)
                if got is not None:
                    return got.give()
                continue
            found = self._look(name)
            stale = None if found.fresh else found.answer
            if found.fresh and found.answer is not None:
                return found.answer.give()
            if found.failure is not None:
                if stale is None:
                    raise FlightFailed.because(name, found.failure)
                return stale.give()
            mine, around = LocalFlight(name), current_flight()
            try:
                flight = self._registry.join(mine)
                if flight is mine:
                    if stale is not None and self._terms.in_background:
                        self._in_background(flight, compute, stale)
                        return stale.give()
                    flight.absent = stale is None
                    own = self._fly(flight, compute, stale, until)
                    if own is None:
                        continue
                    return own.give_own()
            except BaseException:  # an interrupt may come at any moment, also while the flight ends
                current_work.set(around)
                self._registry.end(mine, None)
                raise
            if stale is not None:
                return stale.give()
            got = self._wait_for(flight, until)
            if got is not None:
                return got.give()

    def _refresh(self, name: str, compute: Compute) -> Any:
        until = self._until(name)
        while True:
            mine, around = LocalFlight(name), current_flight()
            try:
                flight = self._registry.join(mine)
                if flight is mine:
                    own = self._fly(flight, compute, None, until, force=True)
                    if own is None:
                        continue
                    return own.give_own()
            except BaseException:  # an interrupt may come at any moment, also while the flight ends
                current_work.set(around)
                self._registry.end(mine, None)
                raise
            self._wait_for(flight, until)

    def _until(self, name: str) -> float | None:
        wait = self._wait
        limit = self._lock_of(name).terms.wait if wait is BY_NAME else wait
        return None if limit is None else self._locks.place.clock() + limit

    def _left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._locks.place.clock())

    def _look(self, name: str) -> Stored:
        values = self._terms.values_of(name)
        try:
            replies = look(self._locks, values.quick_look, name)
            hit = None if replies is None else self._terms.hit(values, replies)
            if hit is not None:
                return hit
            found: Stored = self._locks.run(self._terms.look(name), name)
            return found
        except Unavailable:
            if self._locks.settings.on_unavailable == "raise":
                raise
            return Stored(None, False, 0.0, None)

    def _wait_for(self, flight: LocalFlight, until: float | None) -> Answer | None:
        """What another thread has computed; None if this one must start again."""
        late = flight.landing
        caller, place = flight.join(identity().stack), self._locks.place
        sleeper = place.runtime.sleeper()
        flight.sleepers.append(sleeper)
        started = place.clock()
        try:
            while not flight.done:
                if not sleeper.sleep(float("inf") if until is None else until) and not flight.done:
                    raise LockTimeout.after(flight.name, place.clock() - started, None, 0)
        finally:
            flight.leave(caller)
        computed = flight.computed
        if late or computed is None or (computed.circle and caller is None):
            return None
        return computed.all

    def _in_background(self, flight: LocalFlight, compute: Compute, stale: Answer) -> None:
        def work() -> None:
            try:
                self._fly(flight, compute, stale, None, alone=True)
            finally:
                self._registry.end(flight, None)

        begun = False
        try:
            begun = self._registry.background(work)
        except RuntimeError as error:
            self._locks.report_refresh_failed(self._lock_of(flight.name), b"", error_text(error))
        if not begun:
            self._registry.end(flight, None)

    def _fly(
        self,
        flight: LocalFlight,
        compute: Compute,
        stale: Answer | None,
        until: float | None,
        *,
        force: bool = False,
        alone: bool = False,
    ) -> Answer | None:
        """What the call that began the flight gets; None if it must start again. `alone`: no call waits for it."""
        computed: Computed | None = None
        caller: Caller | None = None
        around = current_flight()
        try:
            caller = None if alone else flight.join(identity().stack)
            current_work.set(flight)
            computed = outcome = self._computed(flight, compute, stale, until, force)
        except Exception as error:
            computed = outcome = to_share(error, stale)
            if stale is not None:
                self._locks.report_refresh_failed(self._lock_of(flight.name), b"", error_text(error))
        finally:
            current_work.set(around)
            flight.leave(caller)
            self._registry.end(flight, computed)
        return None if outcome.circle and caller is None else outcome.own

    def _computed(
        self, flight: LocalFlight, compute: Compute, stale: Answer | None, until: float | None, force: bool
    ) -> Computed:
        name = flight.name
        lock = self._lock_of(name)
        lease = lock.try_acquire()
        if lease is None:
            if stale is not None:
                return Computed(stale, stale)
            if not force:
                # As a reader: everybody who waits is granted together when the value is there.
                reader = lock.reading().acquire(wait=self._left(until))
                with suppress(LockError):
                    reader.release()
                landed = self._landed(flight)
                if landed is not None:
                    return landed
            lease = lock.acquire(wait=self._left(until))
        computed: Computed | None = None
        try:
            with lease:
                flight.entries = [(lease.block_key, lease)]
                computed = None if force or lease.degraded else self._landed(flight)
                computed = computed or self._compute(flight, lease, compute, stale)
        except LockError:
            if computed is None:
                raise
            # Only the end of the lease. A loss changes nothing: the server has refused the value then.
        finally:
            flight.entries = ()
        assert computed is not None
        return computed

    def _landed(self, flight: LocalFlight) -> Computed | None:
        flight.landing, name = True, flight.name
        found = self._look(name)
        if found.answer is not None and found.fresh:
            return Computed(found.answer, found.answer)
        if found.answer is None and found.failure is not None:
            failed = Answer(error=FlightFailed.because(name, found.failure))
            return Computed(failed, failed)
        flight.landing = False
        return None

    def _compute(self, flight: LocalFlight, lease: Any, compute: Compute, stale: Answer | None) -> Computed:
        """An interrupt (Ctrl-C) is no answer: it goes through, and the next in line computes."""
        try:
            outcome = Answer(compute())
        except Exception as error:
            outcome = Answer(error=error)
        flight.landing, name = True, flight.name
        if lease.degraded:
            return self._terms.unstored(name, outcome)
        owner = lease.tenure.owner
        computed: Computed = self._locks.run(self._terms.land(name, owner, outcome, stale), name)
        if computed.failed is not None:
            self._locks.report_refresh_failed(self._lock_of(name), owner, computed.failed)
        return computed
