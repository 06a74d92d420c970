"""A renewal that a caller waits for: `lease.renew()` and `lease.detach()`.

The keeper sends it among its own renewals. A renewal that shortens the time carries an ordinal, and so do all later
ones: no older renewal can undo a newer one, whichever connections they use.
"""

from collections.abc import Callable
from typing import Any

from holdtight.base.plan import NO_ANSWER
from holdtight.base.values import LossReason, Owner, Verdict
from holdtight.core.acks import shortfall
from holdtight.errors import NotOwner, Unavailable
from holdtight.grants.tenure import Tenure
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["Renewal"]


class Renewal:
    """`ttl` None keeps the lease's ttl. The `last` renewal, for detach, ends the tenure here."""

    def __init__(self, tenure: Tenure, ttl: float | None, done: Callable[[], object], *, last: bool = False) -> None:
        self.place = tenure.place
        self.interval = tenure.interval
        self.alive = True
        self._tenure = tenure
        self._ttl = tenure.ttl if ttl is None else ttl
        self._done = done
        self._last = last
        self.place.client.outlived_by(self._ttl)
        if last:
            self.place.client.detached = True
        self._cause = NO_ANSWER
        self._verdict: Verdict | LossReason | None = None

    @property
    def name(self) -> str:
        return self._tenure.name

    @property
    def deadline(self) -> float:
        return self._tenure.deadline

    @property
    def home(self) -> int | None:
        return self._tenure.home

    @property
    def owner(self) -> Owner:
        return self._tenure.owner

    def start(self) -> None:
        self._tenure.waiting = True
        keeper = self.place.runtime.keeper
        keeper.drop(self._tenure)
        keeper.ask(self)

    def _asked(self, now: float) -> float:
        until = self._tenure.hold_until
        if until is None or self._last:
            return self._ttl
        return max(0.001, min(self._ttl, self._tenure.terms.drift.ttl_for(until - now)))

    def request(self, now: float) -> bytes | None:
        if not self.alive:
            return None
        tenure = self._tenure
        if not tenure.alive or now >= tenure.deadline:
            self._finish(tenure.reason)
            return None
        asked, patience = self._asked(now), min(LONGEST_PATIENCE, tenure.deadline - now)
        if not (self._last or self._ttl < tenure.ttl or tenure.ordinal):
            return tenure.prepared.renew_request(tenure.owner, now, asked, patience)
        # From now on the server may have carried it out.
        bound = min(tenure.deadline, now + tenure.terms.drift.valid(asked))
        tenure.shortened = (now, bound)
        tenure.deadline = bound
        return tenure.set_request(now, asked, patience)

    def answered(self, reply: Any, sent: float) -> bool | None:
        verdict = self._tenure.prepared.read_renewal(reply, sent)
        if verdict is Verdict.UNKNOWN:
            self.unanswered(str(reply))
            return False
        if verdict is Verdict.RENEWED and self._tenure.acks:
            return None
        return self._settle(verdict, sent)

    def acknowledged(self, seen: int | str, sent: float) -> bool:
        cause = shortfall(seen, self.place.acks.needed)
        if cause:
            self.unanswered(cause)
            return False
        self._tenure.acks = int(seen)
        return self._settle(Verdict.RENEWED, sent)

    def _settle(self, verdict: Verdict | LossReason, sent: float) -> bool:
        if isinstance(verdict, LossReason):
            self._tenure.lose(verdict)
        elif not self._last and self.alive:
            self._set_terms(sent)
        # Even if the caller has given up, the server has done it; the deadline is no later than what the server keeps.
        self._finish(verdict)
        return True

    def _set_terms(self, sent: float) -> None:
        tenure = self._tenure
        keeper = self.place.runtime.keeper
        keeper.drop(tenure)
        tenure.ttl = self._ttl
        drift = tenure.terms.drift
        tenure.interval = self._ttl / 3 if tenure.terms.renew else drift.valid(self._ttl)
        tenure.shortened = None
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
        # A detached tenure is not renewed. The caller ends it in conclude(), or resumes renewal in give_up().
        self._tenure.waiting = self._last and verdict is Verdict.RENEWED
        self._verdict = verdict
        self._done()

    def give_up(self) -> None:
        """The caller stops waiting. The server may have carried it out or not: the deadline assumes the worse, and the
        keeper renews at once."""
        self.alive = False
        self._tenure.waiting = False
        if self._tenure.alive:
            self.place.runtime.keeper.ask(self._tenure)

    def conclude(self) -> None:
        """Called once the renewal is done or has taken too long. Raises NotOwner if the lease is lost, Unavailable if
        the server did not answer."""
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
