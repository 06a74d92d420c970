"""`AsyncLocks.single_flight`. recipes/flights.py has the plan of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, task_identity
from holdtight.base.jobs import Peek
from holdtight.clients.decorating import begun
from holdtight.config.profiles import UNSET
from holdtight.errors import FlightFailed, LockError, LockTimeout, Unavailable
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.flights import Answer, Computed, Flight, FlightTerms, Stored, current_flight, inside
from holdtight.recipes.names import Naming

__all__ = ["AsyncSingleFlight"]

MOST_IN_BACKGROUND = 4
Compute = Callable[[], Awaitable[Any]]


class LocalFlight(Flight):
    """A task of its own computes, in the context of the first caller; it is cancelled when no caller waits any more."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.task: asyncio.Task[None] | None = None
        self.computed: Computed | None = None
        self.waiting = 0
        self.looking = True
        """Its first caller asks the server what there is."""
        self._looked: asyncio.Future[None] | None = None

    async def looked(self) -> None:
        """Waits until the first caller has looked."""
        if self._looked is None:
            self._looked = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._looked])

    def has_looked(self) -> None:
        self.looking = False
        if self._looked is not None:
            _finish(self._looked)


class Registry:
    """The flights of one client that are under way, by event loop and name."""

    def __init__(self) -> None:
        self._flights: dict[tuple[asyncio.AbstractEventLoop, str], LocalFlight] = {}
        self.in_background: set[asyncio.Task[None]] = set()

    def join(self, name: str) -> tuple[LocalFlight, bool]:
        """The flight of this name, and whether the caller has just begun it."""
        key = asyncio.get_running_loop(), name
        found = self._flights.get(key)
        if found is not None and (found.task is None or not found.task.get_loop().is_closed()):
            return found, False
        made = self._flights[key] = LocalFlight(name)
        return made, True

    def end(self, flight: LocalFlight) -> None:
        key = asyncio.get_running_loop(), flight.name
        if self._flights.get(key) is flight:
            del self._flights[key]

    def close(self) -> None:
        for task in list(self.in_background):
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)


class AsyncSingleFlight:
    """The result of `locks.single_flight(...)`: a decorator, with `get_or_create` for a name without fields."""

    def __init__(self, locks: Any, name: Any, options: dict[str, Any], given: dict[str, Any]) -> None:
        self._locks = locks
        self._name = name
        self._options = options
        self._terms = FlightTerms(locks, **given)
        locks.lock("any name", **options)  # wrong options show at decoration
        self._registry: Registry = locks.flights(Registry)

    def __call__(self, function: Any) -> Any:
        return decorator("single_flight", self._wrap, awaits=True)(function)

    async def get_or_create(self, fetch: Callable[[], Awaitable[Any]]) -> Any:
        """The value of this name, which `fetch()` computes if it has to be."""
        return await self._get(Naming(self._name).of((), {}), lambda: _begun(fetch))

    def _wrap(self, function: Any) -> Any:
        naming, run, terms = Naming(self._name, function), self._locks.run, self._terms

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._get(naming.of(args, kwargs), lambda: _begun(function, *args, **kwargs))

        async def refresh(*args: Any, **kwargs: Any) -> Any:
            return await self._refresh(naming.of(args, kwargs), lambda: _begun(function, *args, **kwargs))

        async def invalidate(*args: Any, **kwargs: Any) -> None:
            name = naming.of(args, kwargs)
            await run(terms.drop(name, "gone"), name)

        async def expire(*args: Any, **kwargs: Any) -> None:
            name = naming.of(args, kwargs)
            await run(terms.drop(name, "stale"), name)

        async def peek(*args: Any, **kwargs: Any) -> Peek | None:
            name = naming.of(args, kwargs)
            found: Peek | None = await run(terms.peek(name), name)
            return found

        return dressed(call, function, naming, refresh=refresh, invalidate=invalidate, expire=expire, peek=peek)

    async def _get(self, name: str, compute: Compute) -> Any:
        until, registry = self._until(name), self._registry
        waited = False
        while True:
            flight, mine = registry.join(name)
            if mine:
                found = await self._first_look(flight)
                stale = None if found.fresh else found.answer
                if found.fresh or found.failure is not None:
                    registry.end(flight)
                    flight.has_looked()
                    return self._decided(name, found).give()
                flight.absent = stale is None
                if stale is not None and self._terms.in_background:
                    self._in_background(flight, compute, stale)
                    flight.has_looked()
                    return stale.give()
                return await self._first(flight, self._fly(flight, compute, stale, until))
            if flight.looking and not waited:
                # Many tasks that come at once: one looks. If it finds nothing, all wait for the flight; otherwise each
                # looks for itself, since what was found may be older than this call.
                waited = True
                await flight.looked()
            elif flight.absent and not flight.landing:
                got = await self._wait_for(flight, until)
                if got is not None:
                    return got.give()
            else:
                found = await self._look(name)
                if found.answer is not None or found.failure is not None:
                    return self._decided(name, found).give()
                if flight.task is not None:
                    await self._wait_for(flight, until)
                elif flight.looking:
                    await flight.looked()

    async def _first_look(self, flight: LocalFlight) -> Stored:
        try:
            return await self._look(flight.name)
        except BaseException:
            self._registry.end(flight)
            flight.has_looked()
            raise

    @staticmethod
    def _decided(name: str, found: Stored) -> Answer:
        """What is stored, fresh or stale; else the failure that counts."""
        return found.answer or Answer(error=FlightFailed.because(name, found.failure or ""))

    async def _refresh(self, name: str, compute: Compute) -> Any:
        until = self._until(name)
        while True:
            flight, mine = self._registry.join(name)
            if mine:
                return await self._first(flight, self._fly(flight, compute, None, until, force=True))
            if flight.looking:
                await flight.looked()
            else:
                await self._wait_for(flight, until)

    def _until(self, name: str) -> float | None:
        wait = self._options.get("wait", UNSET)
        limit = self._locks.lock(name, **self._options).terms.wait if wait is UNSET else wait_seconds(wait)
        return None if limit is None else self._locks.place.clock() + limit

    def _left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._locks.place.clock())

    async def _look(self, name: str) -> Stored:
        try:
            found: Stored = await self._locks.run(self._terms.look(name), name)
            return found
        except Unavailable:
            if self._locks.settings.on_unavailable == "raise":
                raise
            return Stored(None, False, 0.0, None)

    async def _wait_for(self, flight: LocalFlight, until: float | None) -> Answer | None:
        """What another task has computed; None if this one must start again."""
        flight.check_join()
        late = flight.landing
        place, started = self._locks.place, self._locks.place.clock()
        if not await self._await(flight, until):
            raise LockTimeout.after(flight.name, place.clock() - started, None, 0)
        return None if late or flight.computed is None else flight.computed.all

    async def _first(self, flight: LocalFlight, flying: Any) -> Any:
        """Begins the flight, and waits for it as its first caller."""
        flight.task = asyncio.create_task(flying, name=f"holdtight-flight-{flight.name}")
        flight.has_looked()
        await self._await(flight, None)
        if flight.computed is None:
            raise asyncio.CancelledError
        return flight.computed.own.give()

    async def _await(self, flight: LocalFlight, until: float | None) -> bool:
        """False if the time came first. The last caller that leaves cancels the flight."""
        task = flight.task
        assert task is not None
        loop, runtime = asyncio.get_running_loop(), self._locks.place.runtime
        me = flight.joined()
        flight.waiting += 1
        due = loop.create_future()
        timer = None if until is None else runtime.call_at(loop, until, _finish, due)
        try:
            await asyncio.wait([task, due], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if timer is not None:
                timer.cancel()
            flight.left(me)
            flight.waiting -= 1
            if not flight.waiting and not task.done():
                task.cancel()
                self._registry.end(flight)
        return task.done()

    def _in_background(self, flight: LocalFlight, compute: Compute, stale: Answer) -> None:
        tasks = self._registry.in_background
        if len(tasks) >= MOST_IN_BACKGROUND:
            self._registry.end(flight)
            return
        task = flight.task = asyncio.create_task(self._fly(flight, compute, stale, None), name="holdtight-refresh")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _fly(
        self, flight: LocalFlight, compute: Compute, stale: Answer | None, until: float | None, *, force: bool = False
    ) -> None:
        current_flight.set(flight)
        try:
            flight.computed = await self._computed(flight, compute, stale, until, force)
        except Exception as error:
            flight.computed = Computed(Answer(error=error), None)
            if stale is not None:
                get_logger().warning("flight %r was not refreshed: %s", flight.name, error)
        finally:
            self._registry.end(flight)

    async def _computed(
        self, flight: LocalFlight, compute: Compute, stale: Answer | None, until: float | None, force: bool
    ) -> Computed:
        name = flight.name
        lock = self._locks.lock(name, **self._options)
        lease = await lock.try_acquire()
        if lease is None:
            if stale is not None:
                return Computed(stale, stale)
            if not force:
                # As a reader: everybody who waits is granted together when the value is there.
                reader = await lock.reading().take(self._left(until), self._waiting(flight))
                with suppress(LockError):
                    await reader.release()
                landed = await self._landed(flight)
                if landed is not None:
                    return landed
            lease = await lock.take(self._left(until), self._waiting(flight))
        who = task_identity(asyncio.current_task())
        lease.step_in(who, lease)
        flight.entries = [(lease.block_key, lease)]
        try:
            landed = None if force or lease.degraded else await self._landed(flight)
            return landed or await self._compute(flight, lease, compute, stale)
        finally:
            flight.entries = []
            who.leave_block(lease.block_key)
            with suppress(LockError):  # a loss changes nothing: the server has refused the value then
                await lease.leave()

    def _waiting(self, flight: LocalFlight) -> Identity:
        """This task as it waits: the flights around it wait too, and what they hold counts for deadlocks."""
        me = Identity(asyncio.current_task())
        me.stack = inside(flight)
        return me

    async def _landed(self, flight: LocalFlight) -> Computed | None:
        flight.landing, name = True, flight.name
        found = await self._look(name)
        if found.answer is not None and found.fresh:
            return Computed(found.answer, found.answer)
        if found.answer is None and found.failure is not None:
            failed = Answer(error=FlightFailed.because(name, found.failure))
            return Computed(failed, failed)
        flight.landing = False
        return None

    async def _compute(self, flight: LocalFlight, lease: Any, compute: Compute, stale: Answer | None) -> Computed:
        """A cancellation is no answer: it goes through, and the next in line computes."""
        try:
            outcome = Answer(await compute())
        except Exception as error:
            outcome = Answer(error=error)
        flight.landing, name = True, flight.name
        if lease.degraded:
            return self._terms.unstored(name, outcome)
        computed: Computed = await self._locks.run(self._terms.land(name, lease.tenure.owner, outcome, stale), name)
        return computed


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _begun(function: Any, *args: Any, **kwargs: Any) -> Any:
    return begun(await function(*args, **kwargs), function)
