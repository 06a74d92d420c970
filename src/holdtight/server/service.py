"""The service behind the API: sessions, and the verbs on locks. Knows no HTTP.

An instance owns nothing: owners come from the client, all state is on the lock server with an expiry, so any instance
serves any request.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdtight.aio.agent import Agent, Attempt, Held, Taken
from holdtight.aio.locks import AsyncLocks
from holdtight.base import refusals
from holdtight.base.plan import Batch, Plan, Step
from holdtight.base.values import Owner
from holdtight.server.history import History
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.survey import Survey

__all__ = ["Poll", "Service"]

MOST_WAITS = 2000
MOST_STREAMS = 20
MOST_SESSIONS = 1000
MOST_LEASES = 1000
"""Of one session."""


class Poll:
    """One request that may wait in line."""

    def __init__(self, attempt: Attempt, principal: str) -> None:
        self.attempt = attempt
        self.principal = principal
        self.task = asyncio.current_task()
        self.why: Problem | None = None
        """Why the service itself ended it."""

    def end(self, why: Problem) -> None:
        """Ends the poll; its place in line stays."""
        if self.why is None and self.task is not None:
            self.why = why
            self.attempt.keep()
            self.task.cancel()


class Service:
    def __init__(self, locks: AsyncLocks) -> None:
        if not isinstance(locks, AsyncLocks):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"locks must be AsyncLocks, not {type(locks).__name__}")
        if locks.place.topology != "server":
            raise refusals.service_on_a_quorum()
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

    # Waiting

    async def acquire(self, attempt: Attempt, principal: Principal) -> Taken:
        """Runs an acquisition that may wait. Of two for one owner here, the older ends."""
        owner = attempt.asking.owner
        older = self.polls.get(owner)
        if older is not None:
            older.end(Problem(409, "SUPERSEDED", "another request with the same request id waits now"))
        if self.waits[principal.name] >= MOST_WAITS:
            raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_WAITS} requests waiting")
        poll = self.polls[owner] = Poll(attempt, principal.name)
        self.waits[principal.name] += 1
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

    def drain(self) -> None:
        """Ends all waits; their places stay for those who ask another instance."""
        self.draining = True
        for poll in list(self.polls.values()):
            poll.end(shutting_down())
        self.survey.changed.set()
        self.history.end()

    def valid(self, ttl: float, sent: float, started: float) -> float:
        """Seconds from the moment at which the client sent its request, for which it surely holds."""
        return round(max(0.0, sent - started + self.agent.valid(ttl)), 6)

    async def still_held(self, held: Held, ttl: float) -> bool:
        return isinstance(await self.agent.renew(held, ttl), Taken)


def shutting_down() -> Problem:
    detail = "this instance ends; ask again with the same request id: your place in line is kept for five seconds"
    return Problem(503, "SHUTTING_DOWN", detail, headers=(("retry-after", "0"),))
