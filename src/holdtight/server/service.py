"""The service behind the API: sessions, and the verbs on locks. Knows no HTTP.

An instance owns nothing: owners come from the client, all state is on the lock server with an expiry, so any instance
serves any request.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from holdtight.aio.agent import Agent, Attempt, Held, Taken
from holdtight.aio.locks import AsyncLocks
from holdtight.base import refusals
from holdtight.base.plan import Batch, Plan, Step
from holdtight.base.values import Owner
from holdtight.errors import LockError
from holdtight.server.history import History
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.survey import Survey

__all__ = ["Poll", "Service", "Upkeep"]

MOST_WAITS = 2000
MOST_STREAMS = 20
MOST_SESSIONS = 1000
MOST_LEASES = 1000
"""Of one session."""
UPKEEP_EVERY = 0.25
"""Seconds; the shortest session lasts four of them."""


class Upkeep(NamedTuple):
    """What an open poll does for its session, so often: the session's record outlives the wait, as long as the client
    does not hang up. Only the client's beats renew leases."""

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
        if locks.place.topology == "cluster":
            raise refusals.service_on_a_cluster()
        if locks.place.topology != "server":
            raise refusals.service_on_a_quorum()
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
        self.opened: dict[str, dict[bytes, float]] = {}
        """Sessions that this instance opened, by token, and when they end at the latest without a beat."""
        self.draining = False
        self._later: set[asyncio.Task[None]] = set()
        self._tending: asyncio.Task[None] | None = None
        self._secret: bytes | None = None

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
        """Does what need not be waited for. If it fails, the expiry of what it is about sees to it."""

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
        if self._secret is None:
            await self.ask(self.sessions.secret_step())
            self._secret = await self.ask(self.sessions.secret_read_step())
        return principal._replace(secret=hashlib.sha256(b"%b%b" % (self._secret, principal.name.encode())).digest())

    # Limits

    def may_open(self, token: str) -> None:
        opened = self.opened.setdefault(token, {})
        if len(opened) >= MOST_SESSIONS:
            now = time.monotonic()
            for session in [each for each, until in opened.items() if until < now]:
                del opened[session]
            if len(opened) >= MOST_SESSIONS:
                raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_SESSIONS} sessions: close some")

    def keeps(self, token: str, session: bytes, ttl: float) -> None:
        self.opened.setdefault(token, {})[session] = time.monotonic() + ttl

    def forget(self, token: str, session: bytes) -> None:
        self.opened.get(token, {}).pop(session, None)

    # Waiting

    async def acquire(self, attempt: Attempt, principal: Principal, upkeep: Upkeep | None = None) -> Taken:
        """Runs an acquisition that may wait. Of two for one owner here, the older ends if it waits."""
        owner = attempt.owner
        older = self.polls.get(owner)
        if older is not None:
            older.end(Problem(409, "SUPERSEDED", "another request with the same request id waits now"))
        if not attempt.waits:
            return await attempt.run()
        if self.waits[principal.name] >= MOST_WAITS:
            raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_WAITS} requests waiting")
        poll = self.polls[owner] = Poll(attempt, upkeep, self.clock + upkeep.every if upkeep is not None else 0.0)
        self.waits[principal.name] += 1
        if upkeep is not None and self._tending is None:
            self._tending = asyncio.create_task(self._tend())
        try:
            return await attempt.run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if poll.why is None or task is None:
                raise
            task.uncancel()
            raise poll.why from None
        finally:
            self.waits[principal.name] -= 1
            if not self.waits[principal.name]:
                del self.waits[principal.name]
            if self.polls.get(owner) is poll:
                del self.polls[owner]

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
        """Ends all waits; their places stay for those who ask another instance, for a whole heartbeat from now on."""
        self.draining = True
        self.history.end()
        polls = list(self.polls.values())
        try:
            async with asyncio.timeout(1.0):
                await self.ask_all([poll.attempt.touch_step() for poll in polls])
        except (LockError, RuntimeError, TimeoutError):
            pass  # the places stay for what is left of the heartbeat
        for poll in polls:
            poll.end(shutting_down())

    def valid(self, ttl: float, sent: float, started: float) -> float:
        """Seconds from the moment at which the client sent its request, for which it surely holds."""
        return round(max(0.0, sent - started + self.agent.valid(ttl)), 6)

    async def still_held(self, held: Held, ttl: float) -> bool:
        return isinstance(await self.agent.renew(held, ttl), Taken)


def shutting_down() -> Problem:
    detail = "this instance ends; ask again with the same request id: your place in line is kept for five seconds"
    return Problem(503, "SHUTTING_DOWN", detail, headers=(("retry-after", "0"),))
