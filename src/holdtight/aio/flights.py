"""`AsyncLocks.single_flight`. recipes/flights.py has the plan of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from holdtight.aio.local_flights import LocalFlight, Registry, finish
from holdtight.aio.looking import asked, look, usual
from holdtight.base.identity import blocks_of, current_work, task_identity
from holdtight.base.jobs import Peek
from holdtight.base.plan import LinkDown
from holdtight.base.public import Public
from holdtight.clients.decorating import begun
from holdtight.errors import FlightFailed, LockError, LockTimeout, Unavailable
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.flights import (
    BY_NAME,
    MOST_IN_BACKGROUND,
    NO_HIT,
    Answer,
    Computed,
    FlightTerms,
    Stored,
    to_share,
    waits_for,
)
from holdtight.recipes.locking import locks_of_single_owners
from holdtight.recipes.names import Naming
from holdtight.recipes.once import error_text

__all__ = ["AsyncSingleFlight"]

TOO_LATE: Any = object()
APART: Any = object()
NOTHING = Stored(None, False, 0.0, None)
Compute = Callable[[], Awaitable[Any]]


class AsyncSingleFlight(Public):
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
        return decorator("single_flight", self._wrap, awaits=True)(function)

    async def get_or_create(self, fetch: Callable[[], Awaitable[Any]]) -> Any:
        """The value of this name, which `fetch()` computes if it has to be."""
        return await self._get(Naming(self._name).of((), {}), lambda: _begun(fetch))

    def _wrap(self, function: Any) -> Any:
        naming, run, terms = Naming(self._name, function), self._locks.run, self._terms
        name_of, values_of, fresh, locks, registry = (
            naming.of,
            terms.values_of,
            terms.fresh,
            self._locks,
            self._registry,
        )

        async def call(*args: Any, **kwargs: Any) -> Any:
            name = name_of(args, kwargs)
            until = None if self._wait is None else self._until(name)
            flight, mine = registry.join(name)
            if mine:
                # A hit comes back from here: one request, no coroutine of its own.
                found: Stored | None = None
                try:
                    values = values_of(name)
                    future = asked(locks, values.quick_look)
                    if future is not None:
                        replies = await future
                        value = fresh(values, replies) if usual(replies) else NO_HIT
                        if value is not NO_HIT:
                            registry.end(flight)
                            if flight.waiting:
                                flight.has_found(Answer(value))
                            return value
                except BaseException as error:
                    found = self._not_seen(flight, error)
                compute = lambda: _begun(function, *args, **kwargs)  # noqa: E731
                got = await self._begin(flight, compute, until, found=found, quickly=False)
                if got is not None:
                    return got.give_own()
                return await self._get(name, lambda: _begun(function, *args, **kwargs))
            simply = self._wait is None and flight.joinable and current_work.get() is None
            if simply and not blocks_of(asyncio.current_task()):  # for ever, and without harm to another wait
                # Many calls come at once. A coroutine of its own for each would cost more than all else.
                waiter = flight.new_waiter()
                try:
                    got = await waiter
                finally:
                    self._leave(flight)
                if got is not None and not flight.in_circle:
                    return got.give()
            return await self._get(name, lambda: _begun(function, *args, **kwargs), early=simply)

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

    async def _get(self, name: str, compute: Compute, early: bool = False) -> Any:
        until, registry = None if self._wait is None else self._until(name), self._registry
        while True:
            flight, mine = registry.join(name)
            if mine:
                own = await self._begin(flight, compute, until)
                if own is None:
                    continue
                return own.give_own()
            if flight.joinable:
                got = await self._wait_for(flight, until, early)
                if got is not None:
                    return got.give()
                early = True
                continue
            found = await self._look(name)
            if found.answer is not None or found.failure is not None:
                return self._decided(name, found).give()
            await self._wait_for(flight, until)

    def _not_seen(self, flight: LocalFlight, error: BaseException) -> Stored | None:
        """The quick look of the first caller has failed. Returns what to go on with, None to look again, or raises."""
        if isinstance(error, LinkDown):
            if error.stale:
                return None
            if self._locks.settings.on_unavailable != "raise":
                return NOTHING
            meaning = self._locks.meaning(error, flight.name)
            self._not_found(flight, meaning)
            raise meaning from error
        self._not_found(flight, error)
        raise error

    def _not_found(self, flight: LocalFlight, error: BaseException) -> None:
        self._registry.end(flight)
        if isinstance(error, Exception):  # the others would only meet the same, one after another
            flight.has_found(Answer(error=error), to_all=True)
        else:
            flight.has_found(None)

    async def _begin(
        self,
        flight: LocalFlight,
        compute: Compute,
        until: float | None,
        *,
        found: Stored | None = None,
        quickly: bool = True,
    ) -> Answer | None:
        """The first caller: looks what there is, and begins to compute if it must. None if it must start again."""
        registry = self._registry
        if found is None:
            try:
                found = await self._look(flight.name, quickly=quickly)
            except BaseException as error:
                self._not_found(flight, error)
                raise
        if found.fresh or found.failure is not None:
            registry.end(flight)
            answer = self._decided(flight.name, found)
            flight.has_found(answer)
            return answer
        stale = found.answer
        if stale is None:
            flight.absent = True
            return await self._first(flight, self._fly(flight, compute, None, until))
        if not self._terms.in_background:
            flight.has_found(stale)
            return await self._first(flight, self._fly(flight, compute, stale, until))
        self._in_background(flight, compute, stale)
        flight.has_found(stale)
        return stale

    @staticmethod
    def _decided(name: str, found: Stored) -> Answer:
        """What is stored, fresh or stale; else the failure that counts."""
        return found.answer or Answer(error=FlightFailed.because(name, found.failure or ""))

    async def _refresh(self, name: str, compute: Compute) -> Any:
        until = self._until(name)
        while True:
            flight, mine = self._registry.join(name)
            if mine:
                own = await self._first(flight, self._fly(flight, compute, None, until, force=True))
                if own is None:
                    continue
                return own.give_own()
            await self._wait_for(flight, until)

    def _until(self, name: str) -> float | None:
        wait = self._wait
        limit = self._lock_of(name).terms.wait if wait is BY_NAME else wait
        return None if limit is None else self._locks.place.clock() + limit

    def _left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._locks.place.clock())

    async def _look(self, name: str, *, quickly: bool = True) -> Stored:
        values = self._terms.values_of(name)
        try:
            replies = await look(self._locks, values.quick_look, name) if quickly else None
            hit = None if replies is None else self._terms.hit(values, replies)
            if hit is not None:
                return hit
            found: Stored = await self._locks.run(self._terms.look(name), name)
            return found
        except Unavailable:
            if self._locks.settings.on_unavailable == "raise":
                raise
            return NOTHING

    async def _wait_for(self, flight: LocalFlight, until: float | None, early: bool = False) -> Answer | None:
        """What another task has found or computed; None if this one must start again."""
        if flight.over:
            return None
        late = flight.landing
        place, started = self._locks.place, self._locks.place.clock()
        got = await self._await(flight, until, early)
        if got is TOO_LATE:
            raise LockTimeout.after(flight.name, place.clock() - started, None, 0)
        return None if late or got is APART else got

    async def _first(self, flight: LocalFlight, flying: Any) -> Answer | None:
        """Begins the flight, and waits for it as its first caller. None if that must start again."""
        self._start(flight, flying, f"holdtight-flight-{flight.name}")
        got = await self._await(flight, None)
        if flight.computed is None:
            raise asyncio.CancelledError
        return None if got is APART else flight.computed.own

    def _start(self, flight: LocalFlight, flying: Any, name: str) -> "asyncio.Task[None]":
        registry = self._registry
        task = flight.task = asyncio.create_task(flying, name=name)
        flight.looking = False

        def ended(task: "asyncio.Task[None]") -> None:  # also of one that was cancelled before it ran
            registry.end(flight)
            flight.has_landed()

        task.add_done_callback(ended)
        return task

    async def _await(self, flight: LocalFlight, until: float | None, early: bool = False) -> Any:
        """What the waiters get; TOO_LATE; or APART if this caller is no part of the deadlock that ended the flight."""
        caller = flight.join(blocks_of(asyncio.current_task()))
        loop, waiter = asyncio.get_running_loop(), flight.new_waiter(early)
        timer = None if until is None else self._locks.place.runtime.call_at(loop, until, finish, waiter, TOO_LATE)
        try:
            got = await waiter
            return APART if flight.in_circle and caller is None and got is not TOO_LATE else got
        finally:
            if timer is not None:
                timer.cancel()
            flight.leave(caller)
            self._leave(flight)

    def _leave(self, flight: LocalFlight) -> None:
        """The last caller that leaves cancels the flight."""
        flight.waiting -= 1
        if not flight.waiting and flight.task is not None and not flight.task.done():
            flight.task.cancel()
            self._registry.end(flight)

    def _in_background(self, flight: LocalFlight, compute: Compute, stale: Answer) -> None:
        tasks = self._registry.in_background
        if len(tasks) >= MOST_IN_BACKGROUND:
            self._registry.end(flight)
            return
        flight.waiting += 1  # it goes on, also when all callers that joined it have left
        task = self._start(flight, self._fly(flight, compute, stale, None), "holdtight-refresh")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _fly(
        self, flight: LocalFlight, compute: Compute, stale: Answer | None, until: float | None, *, force: bool = False
    ) -> None:
        current_work.set(flight)
        try:
            flight.computed = await self._computed(flight, compute, stale, until, force)
        except Exception as error:
            flight.computed = to_share(error, stale)
            if stale is not None:
                self._locks.report_refresh_failed(self._lock_of(flight.name), b"", error_text(error))

    async def _computed(
        self, flight: LocalFlight, compute: Compute, stale: Answer | None, until: float | None, force: bool
    ) -> Computed:
        name = flight.name
        lock = self._lock_of(name)
        who = task_identity(asyncio.current_task())
        lease = await lock.try_acquire()
        if lease is None:
            if stale is not None:
                return Computed(stale, stale)
            if not force:
                # As a reader: everybody who waits is granted together when the value is there.
                reader = await lock.reading().take(self._left(until), who)
                with suppress(LockError):
                    await reader.release()
                landed = await self._landed(flight)
                if landed is not None:
                    return landed
            lease = await lock.take(self._left(until), who)
        lease.step_in(who, lease)
        flight.entries = [(lease.block_key, lease)]
        try:
            landed = None if force or lease.degraded else await self._landed(flight)
            return landed or await self._compute(flight, lease, compute, stale)
        finally:
            flight.entries = ()
            who.leave_block(lease.block_key)
            with suppress(LockError):  # a loss changes nothing: the server has refused the value then
                await lease.leave()

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
        owner = lease.tenure.owner
        computed: Computed = await self._locks.run(self._terms.land(name, owner, outcome, stale), name)
        if computed.failed is not None:
            self._locks.report_refresh_failed(self._lock_of(name), owner, computed.failed)
        return computed


async def _begun(function: Any, *args: Any, **kwargs: Any) -> Any:
    return begun(await function(*args, **kwargs), function)
