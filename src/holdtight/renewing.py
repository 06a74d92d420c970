"""A renewal that somebody waits for: `lease.renew()` and `lease.detach()`.

It travels with the keeper's own renewals, on the same connection, so that the server sees both in order and
an older one cannot undo a newer.
"""

from collections.abc import Callable
from typing import Any

from holdtight.core.renewal import Verdict, judge
from holdtight.errors import NotOwner, Unavailable
from holdtight.redis import script
from holdtight.redis.store import LONGEST_PATIENCE
from holdtight.tenure import Tenure, learn_if_late
from holdtight.values import LossReason

__all__ = ["Renewal"]


class Renewal:
    """`ttl` None keeps the lease's own. The `last` one ends the tenure here: it was detached."""

    def __init__(self, tenure: Tenure, ttl: float | None, done: Callable[[], object], *, last: bool = False) -> None:
        self.place = tenure.place
        self.interval = tenure.interval
        self.alive = True
        self._tenure = tenure
        self._ttl = tenure.ttl if ttl is None else ttl
        self._done = done
        self._last = last
        self._cause = "it did not answer in time"
        self._verdict: Verdict | LossReason | None = None
        self._sent: float | None = None
        """When it first left: from then on the server may have done it."""

    @property
    def deadline(self) -> float:
        return self._tenure.deadline

    def start(self) -> None:
        self._tenure.waiting = True
        keeper = self.place.post.keeper
        keeper.drop(self._tenure)
        keeper.ask(self)

    def _asked(self, now: float) -> float:
        until = self._tenure.hold_until
        if until is None or self._last:
            return self._ttl
        return max(0.001, min(self._ttl, self._tenure.terms.prepared.store.drift.ttl_for(until - now)))

    def request(self, now: float) -> bytes | None:
        tenure = self._tenure
        if not tenure.alive or now >= tenure.deadline:
            self._finish(tenure.reason)
            return None
        self._sent = now if self._sent is None else self._sent
        patience = min(LONGEST_PATIENCE, tenure.deadline - now)
        return tenure.terms.prepared.renew_request(tenure.owner, now, self._asked(now), patience)

    def whole(self, request: bytes) -> bytes:
        return script.RENEW.whole(request)

    def answered(self, reply: Any, sent: float) -> bool:
        verdict = judge(reply)
        if verdict is Verdict.UNKNOWN:
            learn_if_late(self.place.client, reply, sent)
            self.unanswered(str(reply))
            return False
        if isinstance(verdict, LossReason):
            self._tenure.lose(verdict)
        elif self._last or not self.alive:
            self._assume_shorter(sent)  # perhaps nobody waits for it any more, but the server has done it
        else:
            self._set_terms(sent)
        self._finish(verdict)
        return True

    def _set_terms(self, sent: float) -> None:
        tenure = self._tenure
        keeper = self.place.post.keeper
        keeper.drop(tenure)
        tenure.ttl = self._ttl
        drift = tenure.terms.prepared.store.drift
        tenure.interval = self._ttl / 3 if tenure.terms.renew else drift.valid(self._ttl)
        tenure.renewed(sent, self._asked(sent))
        keeper.add(tenure, sent)

    def unanswered(self, cause: str) -> None:
        self._cause = cause

    def overdue(self) -> None:
        self._tenure.lost()
        self._finish(self._tenure.reason)

    def late(self, by: float) -> None: ...

    def _finish(self, verdict: Verdict | LossReason | None) -> None:
        self.alive = False
        # What is detached is renewed no more; that it has ended is for the caller to say, who may have given up.
        self._tenure.waiting = self._last and verdict is Verdict.RENEWED
        self._verdict = verdict
        self._done()

    def give_up(self) -> None:
        """Nobody waits for it any more. The server may have done it or not: the holder counts with the worse, and the
        keeper renews at once."""
        self.alive = False
        self._tenure.waiting = False
        if self._tenure.alive:
            if self._sent is not None:
                self._assume_shorter(self._sent)
            self.place.post.keeper.ask(self._tenure)

    def _assume_shorter(self, sent: float) -> None:
        tenure = self._tenure
        tenure.deadline = min(tenure.deadline, sent + tenure.terms.prepared.store.drift.valid(self._ttl))

    def conclude(self) -> None:
        """In the caller's thread once it is done, or the caller has waited enough: returns if renewed."""
        tenure = self._tenure
        if self._verdict is Verdict.RENEWED:
            if self._last:
                tenure.ended = True
            return
        verb = "detach" if self._last else "renew"
        if tenure.lost():
            raise NotOwner.on(verb, tenure.name, tenure.reason)
        self.give_up()
        raise Unavailable.because(tenure.name, tenure.place.display, f"cannot {verb}: {self._cause}")
