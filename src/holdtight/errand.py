"""Charges that the keeper carries besides tenures: a waiter's place in line, and last words to a server."""

from typing import Any

import hiredis

from holdtight.place import Place
from holdtight.plan import Step
from holdtight.redis import script

__all__ = ["Errand", "StandingInLine"]

TOUCH_SECONDS = 5.0 / 3


class StandingInLine:
    """Keeps a waiter's entry alive. A touch never grants, so a blocked loop is given nothing behind its back."""

    interval = TOUCH_SECONDS
    deadline = float("inf")

    def __init__(self, place: Place, request: bytes) -> None:
        self.place = place
        self.alive = True
        self._request = request

    def request(self, now: float) -> bytes | None:
        return self._request if self.alive else None

    def whole(self, request: bytes) -> bytes:
        return script.TOUCH.whole(request)

    def answered(self, reply: Any, sent: float) -> bool:
        return not isinstance(reply, hiredis.ReplyError)

    def unanswered(self, cause: str) -> None: ...

    def overdue(self) -> None: ...


class Errand:
    """A Step that somebody could not see through: tried for a while, then left to the ttl."""

    interval = 0.4

    def __init__(self, place: Place, step: Step) -> None:
        self.place = place
        self.alive = True
        self.deadline = max(place.clock(), step.until) + step.persistence
        self._step = step

    def request(self, now: float) -> bytes | None:
        return self._step.packed(b"") if self.alive else None

    def whole(self, request: bytes) -> bytes:
        return self._step.replacement(request)

    def answered(self, reply: Any, sent: float) -> bool:
        if isinstance(reply, hiredis.ReplyError):
            return False
        self.alive = self.place.clock() < self._step.until
        return True

    def unanswered(self, cause: str) -> None: ...

    def overdue(self) -> None:
        self.alive = False
