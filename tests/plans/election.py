"""A scripted quorum of five nodes, and an acquisition that gets their answers."""

from __future__ import annotations

from typing import Any

from holdtight.base.clock import Drift
from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import Claim, Denied, Grant, Guarded, Owner
from holdtight.core.contend import Asking, Granted, acquire
from holdtight.core.quorum import Poll
from holdtight.errors import LockError
from holdtight.stores.redis import error_replies
from tests.plans.scripted import HOLDER, OWNER, SHORT_PAUSES, Clock, Named, Run

__all__ = ["GUARDED", "NAMES", "NO", "Election", "ScriptedClaim", "granted", "yes"]

NAMES = tuple(f"node-{number}" for number in range(5))
NO = Denied(HOLDER, 3.0)
GUARDED = Guarded(30.0)


class ScriptedClaim:
    """Five nodes, or as many as wanted."""

    def __init__(self, count: int = 5, ttl: float = 10.0) -> None:
        self.claim = Claim("orders", ttl)
        self.valid = Drift().valid(ttl)
        self.max_waiters = 0
        self.count = count
        self.majority = count // 2 + 1

    def vote_steps(
        self, owner: Owner, *, waiter: Owner, now: float, patience: float, proposal: int, ttl: float | None = None
    ) -> tuple[list[Step], list[int]]:
        limits = [int((now + patience) * 1000) + index for index in range(self.count)]
        return [Named("vote", owner, waiter=waiter, proposal=proposal) for _ in range(self.count)], limits

    def agree_step(self, owner: Owner, fence: int) -> Step:
        return Named("agree", owner, fence=fence)

    def resign_step(self, owner: Owner, marker: int = 0) -> Step:
        step = Named("resign", owner, undo=True)
        step.otherwise = self.withdraw_step(owner, marker) if marker else None
        return step

    def withdraw_step(self, owner: Owner, marker: int) -> Step:
        return Named("withdraw", owner, undo=True, marker=marker)

    def inspect_step(self, most: int = 500) -> Step:
        return Named("inspect", b"")

    def is_passing(self, said: ServerSaid) -> bool:
        return error_replies.is_passing(said)

    def meaning(self, said: ServerSaid) -> LockError:
        return error_replies.meaning(said, name="orders", server="redis://a")

    # The rest of contend's Question, which a quorum never uses.

    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step:
        raise AssertionError

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        raise AssertionError

    def holder_step(self, holder: Owner, left: float) -> Step:
        raise AssertionError


class Election(Run[Granted | None]):
    """An acquisition under way, and what its driver does with a Fan."""

    def __init__(
        self, *, wait: float | None = None, or_none: bool = False, count: int = 5, clock: Clock | None = None
    ) -> None:
        clock = clock or Clock()
        self.prepared = ScriptedClaim(count)
        fresh = (b"%024d" % number for number in range(100))
        self.poll = Poll(
            self.prepared,
            NAMES[:count],
            fresh=lambda: next(fresh),
            proposal=lambda now: int(now * 1e6),
            clock=clock,
        )
        asking = Asking(
            question=self.prepared,  # type: ignore[arg-type]
            owner=OWNER,
            server="a quorum",
            started=clock(),
            wait=wait,
            connect_timeout=2.0,
            retry=SHORT_PAUSES,
            clock=clock,
            or_none=or_none,
            poll=self.poll,
        )
        super().__init__(acquire(asking), clock)

    def verbs(self) -> list[str | None]:
        return [step.verb if isinstance(step, Named) else None for step in self.fans().steps]

    def owner(self) -> Owner:
        step = next(step for step in self.fans().steps if isinstance(step, Named))
        return step.owner

    def nodes(self, *said: Any, after: float = 0.0) -> Election:
        """The nodes' answers when the driver finds the outcome certain."""
        fan = self.fans()
        heard: list[Any] = [*said, *[None] * (len(fan.steps) - len(said))]
        assert fan.certain(heard), f"{heard} decides nothing"
        self.answer(fan.read(heard), after=after)
        return self


def yes(fence: int = 7, sent: float = 1000.0) -> Grant:
    return Grant(fence, sent)


def granted(run: Election) -> Granted:
    assert isinstance(run.result, Granted), f"{run.error or run.wish!r}"
    return run.result
