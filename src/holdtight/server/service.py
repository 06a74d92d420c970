"""The service behind the API: sessions, and the verbs on locks. Knows no HTTP.

An instance owns nothing: owners come from the client, all state is on the lock server with an expiry, so any instance
serves any request.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from holdtight.aio.agent import Agent, Attempt, Held, Taken
from holdtight.aio.locks import AsyncLocks
from holdtight.base import refusals
from holdtight.base.plan import Batch, Plan, Step
from holdtight.base.values import Owner
from holdtight.errors import LockError
from holdtight.server import wholes
from holdtight.server.history import History
from holdtight.server.opened import Opened
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.shared import Shared
from holdtight.server.survey import Survey
from holdtight.server.watching import Leaders

__all__ = ["Poll", "Service", "Upkeep"]

MOST_WAITS = 2000
MOST_STREAMS = 20
MOST_LEASES = 1000
"""Of one session."""
UPKEEP_EVERY = 0.25
"""Seconds; the shortest session lasts four of them."""
KEEP_WITHIN = 0.7
DOCTOR_EVERY = 5.0
SESSIONS_EVERY = 1.0
SECRET_EVERY = 60.0
"""Seconds between two readings of the secret that instances share: so long they may differ at most."""


class Upkeep(NamedTuple):
    """The upkeep of an open poll's session, and its interval. It keeps the session's record until the wait ends or the
    client hangs up. Only the client's beats renew leases."""

    step: Callable[[], Step]
    """Its answer is None if there is no such session any more."""
    every: float
    gone: Problem


class Poll:
    """One request that may wait in line."""

    __slots__ = ("attempt", "due", "task", "upkeep", "why")

    def __init__(self, attempt: Attempt, upkeep: Upkeep | None, due: float) -> None:
        self.attempt = attempt
        self.upkeep = upkeep
        self.due = due
        self.task = asyncio.current_task()
        self.why: Problem | None = None
        """Why the service itself ended it."""

    def end(self, why: Problem, *, keep: bool = True) -> None:
        """Ends the poll; its place in line stays, unless the session that it is of has ended."""
        if self.why is None and self.task is not None:
            self.why = why
            if keep:
                self.attempt.keep()
            self.task.cancel()


class Service:
    def __init__(self, locks: AsyncLocks) -> None:
        if not isinstance(locks, AsyncLocks):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"locks must be AsyncLocks, not {type(locks).__name__}")
        locks.place.check_supports("service", None)
        if locks.settings.acks:
            raise refusals.acks_in_the_service()
        self.locks = locks
        self.agent = Agent(locks)
        self.sessions: Any = locks.place.sessions
        self.history = History(self)
        self.survey = Survey(self)
        self.polls: dict[Owner, Poll] = {}
        self.waits: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.opened = Opened(self)
        self.leaders = Leaders(self)
        self.findings = Shared(locks.doctor, DOCTOR_EVERY)
        self.all_sessions = Shared(partial(wholes.all_sessions, self), SESSIONS_EVERY)
        self.draining = False
        self._later: set[asyncio.Task[None]] = set()
        self._tending: asyncio.Task[None] | None = None
        self._secret = b""
        self._secret_until = float("-inf")

    @property
    def clock(self) -> float:
        return self.locks.place.clock()

    @property
    def now(self) -> float:
        """The lock server's time of day."""
        return self.locks.client.server_time(self.clock)

    async def ask(self, step: Step) -> Any:
        """One request to the lock server. It is sent again if an idle connection had died meanwhile."""

        def plan() -> Plan[Any]:
            return (yield step)

        return await self.locks.run(plan(), "")

    async def ask_all(self, steps: Sequence[Step]) -> list[Any]:
        if not steps:
            return []

        def plan() -> Plan[list[Any]]:
            found: list[Any] = yield Batch(steps)
            return found

        return await self.locks.run(plan(), "")

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background. If it fails, the expiry of the keys concerned cleans up."""

        async def quietly() -> None:
            try:
                await work
            except (LockError, RuntimeError):
                pass

        task = asyncio.create_task(quietly())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def with_secret(self, principal: Principal) -> Principal:
        """Gives a principal without a token the secret that all instances share with it."""
        if principal.secret:
            return principal
        if self.clock >= self._secret_until:
            self._secret = await self._shared_secret()
            self._secret_until = self.clock + SECRET_EVERY
        return principal._replace(secret=hashlib.sha256(b"%b%b" % (self._secret, principal.name.encode())).digest())

    async def _shared_secret(self) -> bytes:
        """Reads the secret, which keeps it on the lock server for another while. Should the lock server have lost it,
        all instances take the one that the first of them makes."""
        found: bytes | None = await self.ask(self.sessions.secret_read_step())
        while found is None:
            await self.ask(self.sessions.secret_step())
            found = await self.ask(self.sessions.secret_read_step())
        return found

    def doubt_secret(self) -> None:
        """Called when the lock server has failed: it may come back without its data."""
        self._secret_until = float("-inf")

    # Waiting

    async def acquire(self, attempt: Attempt, principal: Principal, upkeep: Upkeep | None = None) -> Taken:
        """Runs an acquisition that may wait. A second one of the same owner at this instance ends the first, if that
        waits."""
        owner = attempt.owner
        older = self.polls.get(owner)
        if attempt.waits and older is None:
            self.may_wait(principal)
        if older is not None:
            older.end(Problem(409, "SUPERSEDED", "another request with the same request id waits now"))
        if not attempt.waits:
            return await attempt.run()
        if self.draining:  # it came before the shutdown began: the place in line that it may have had is kept
            await self._keep_places([attempt])
            raise shutting_down()
        poll = self.polls[owner] = Poll(attempt, upkeep, self.clock + upkeep.every if upkeep is not None else 0.0)
        if upkeep is not None and self._tending is None:
            self._tending = asyncio.create_task(self._tend())
        try:
            with self._counted(principal):
                return await attempt.run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if poll.why is None or task is None:
                raise
            task.uncancel()
            raise poll.why from None
        finally:
            if self.polls.get(owner) is poll:
                del self.polls[owner]

    def may_wait(self, principal: Principal) -> None:
        """Raises Problem if the token has no room for another request that waits."""
        if self.waits[principal.name] >= MOST_WAITS:
            raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_WAITS} requests waiting")

    @contextmanager
    def _counted(self, principal: Principal) -> Generator[None]:
        self.waits[principal.name] += 1
        try:
            yield
        finally:
            self.waits[principal.name] -= 1
            if not self.waits[principal.name]:
                del self.waits[principal.name]

    @contextmanager
    def waiting(self, principal: Principal) -> Generator[None]:
        """Counts a request that waits for something other than a lock."""
        self.may_wait(principal)
        with self._counted(principal):
            yield

    async def _tend(self) -> None:
        """Does the upkeep of all open polls: one task, however many wait."""
        try:
            while any(poll.upkeep for poll in self.polls.values()):
                await asyncio.sleep(UPKEEP_EVERY)
                now = self.clock
                due = [poll for poll in self.polls.values() if poll.upkeep is not None and poll.due <= now]
                try:
                    answers = await self.ask_all([poll.upkeep.step() for poll in due if poll.upkeep is not None])
                except (LockError, RuntimeError):
                    continue  # not known: the next time tells
                for poll, answer in zip(due, answers, strict=True):
                    assert poll.upkeep is not None
                    poll.due = now + poll.upkeep.every
                    if answer is None:
                        poll.end(poll.upkeep.gone, keep=False)
        finally:
            self._tending = None

    async def drain(self) -> None:
        """Ends all waits. Their places in line stay for a whole heartbeat from now on, so that the clients can ask
        another instance."""
        self.draining = True
        self.history.end()
        polls = list(self.polls.values())
        await self._keep_places([poll.attempt for poll in polls])
        for poll in polls:
            poll.end(shutting_down())

    async def _keep_places(self, attempts: Sequence[Attempt]) -> None:
        try:
            async with asyncio.timeout(KEEP_WITHIN):
                await self.ask_all([each.touch_step() for each in attempts])
        except (LockError, RuntimeError, TimeoutError):
            pass  # the places stay for what is left of the heartbeat

    def valid(self, ttl: float, sent: float, started: float) -> float:
        """For how many seconds, counted from when the client sent its request, it certainly holds the lock."""
        return round(max(0.0, sent - started + self.agent.valid(ttl)), 6)

    async def still_held(self, held: Held, ttl: float) -> bool:
        return isinstance(await self.agent.renew(held, ttl), Taken)


def shutting_down() -> Problem:
    detail = "this instance ends; ask again with the same request id: your place in line is kept for five seconds"
    return Problem(503, "SHUTTING_DOWN", detail, headers=(("retry-after", "0"),))
