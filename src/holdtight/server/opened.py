"""Counts the sessions that each token has opened through this instance."""

import time
from functools import partial
from typing import TYPE_CHECKING

from holdtight.server.problems import Problem
from holdtight.server.shared import Shared

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["MOST_SESSIONS", "Opened"]

MOST_SESSIONS = 1000
RECOUNT_EVERY = 1.0


class Opened:
    """The sessions that were opened, or have beaten, at this instance. Another instance may have closed some: when a
    token reaches its limit, this asks the lock server which of its sessions are alive, at most once a second."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._found: dict[str, dict[bytes, float | None]] = {}
        """By token: when they end at the latest without a beat; None while they are being opened."""
        self._recounts: dict[str, Shared[None]] = {}

    async def reserve(self, token: str, session: bytes) -> None:
        """Raises Problem. A session that is not opened after all must be forgotten."""
        found = self._found.setdefault(token, {})
        if len(found) >= MOST_SESSIONS:
            now = time.monotonic()
            for each in [each for each, until in found.items() if until is not None and until < now]:
                del found[each]
        if len(found) >= MOST_SESSIONS:
            recount = self._recounts.get(token)
            if recount is None:
                recount = self._recounts[token] = Shared(partial(self._recount, token), RECOUNT_EVERY)
            await recount.get()
        if len(found) >= MOST_SESSIONS:
            detail = f"a token may have {MOST_SESSIONS} sessions: close some"
            raise Problem(429, "LIMIT_REACHED", detail, headers=(("retry-after", "1"),))
        found[session] = None

    async def _recount(self, token: str) -> None:
        found = self._found[token]
        known = [each for each, until in found.items() if until is not None]
        for at in range(0, len(known), 100):
            some = known[at : at + 100]
            answers = await self._service.ask_all([self._service.sessions.left_step(each) for each in some])
            for each, left in zip(some, answers, strict=True):
                if isinstance(left, int) and left < 0:
                    found.pop(each, None)

    def keep(self, token: str, session: bytes, ttl: float) -> None:
        self._found.setdefault(token, {})[session] = time.monotonic() + ttl

    def forget(self, token: str, session: bytes) -> None:
        self._found.get(token, {}).pop(session, None)
