"""Plans for a quorum: a majority of N independent nodes, N fixed by configuration, decided as soon as it is certain.

One *round* asks all nodes for their vote at once, under an owner of its own: a late withdrawal of one round can then
never take back a vote of the next. A round without a majority is withdrawn from every node that may have
voted; the wait loop in contend.py does the waiting.

    vote ──► majority of yes ──► all agree on one fence ─────────────► Grant
       │                    └──► else the largest is written back, where still owned, to a majority ──► Grant
       ├──► a majority is alive, others hold it or voted for others ──► Denied, or Queued to ask again soon
       └──► no majority could have voted ──► NoQuorum, with the answer of every node

A node that is down, silent, or freshly started counts as *no* and never changes the size of the majority: nodes that
we cannot reach may be voting for another owner.

Each node keeps its vote for us until a moment, counted from before it was asked. The lock is ours while a majority
keeps its votes: the lease's deadline is the majority-th largest of those moments.
"""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base.plan import UNDO_SECONDS, Fan, LinkDown, NoQuorum, Plan, ServerSaid, Step, Wish
from holdtight.base.values import (
    Claim,
    Denied,
    ForcedOut,
    Grant,
    Guarded,
    Late,
    Owner,
    Queued,
    Withdrawn,
    owner_text,
)
from holdtight.errors import LockError

if TYPE_CHECKING:
    from holdtight.core.contend import Answer, Asking

__all__ = [
    "Poll",
    "Round",
    "VotingClaim",
    "all_answered",
    "deadline_of",
    "renew",
    "say",
]

NOBODY: Owner = b""
"""In place of a waiter to ring: used by renewals."""
MOST_LATE_ROUNDS = 3
LONGEST_LOOK = 2.5
"""A node forgets a waiter's inbox after five seconds."""


class VotingClaim(Protocol):
    """A claim that the nodes of a quorum vote on, as these plans need it. A store prepares it."""

    @property
    def claim(self) -> Claim: ...
    @property
    def valid(self) -> float: ...

    max_waiters: int

    @property
    def count(self) -> int: ...
    @property
    def majority(self) -> int: ...
    def vote_steps(
        self, owner: Owner, *, waiter: Owner, now: float, patience: float, proposal: int, ttl: float | None = None
    ) -> tuple[list[Step], list[int]]: ...
    def agree_step(self, owner: Owner, fence: int) -> Step: ...
    def resign_step(self, owner: Owner, marker: int = 0) -> Step: ...
    def withdraw_step(self, owner: Owner, marker: int) -> Step: ...
    def inspect_step(self, most: int) -> Step: ...
    def is_passing(self, said: ServerSaid) -> bool: ...
    def meaning(self, said: ServerSaid) -> LockError: ...


class Round:
    """One request to all nodes. `limits`: until when each node may carry it out, in the node's own ms."""

    def __init__(self, owner: Owner, limits: list[int], connections: Sequence[Any] | None = None) -> None:
        self.owner = owner
        self.limits = limits
        self.answers: list[Any] = [None] * len(limits)
        self.connections: list[Any] = [None] * len(limits) if connections is None else list(connections)

    def granted(self) -> dict[int, Grant]:
        return {index: each for index, each in enumerate(self.answers) if each.__class__ is Grant}

    def unanswered(self) -> dict[int, int]:
        """Nodes that may have voted for us without our knowledge, or may still do so."""
        return {index: self.limits[index] for index, each in enumerate(self.answers) if _may_come(each)}


def _may_come(answer: Any) -> bool:
    return answer is None or (isinstance(answer, LinkDown) and answer.sent)


class Poll:
    """The rounds of one acquisition."""

    def __init__(
        self,
        prepared: VotingClaim,
        names: Sequence[str],
        *,
        fresh: Callable[[], Owner],
        proposal: Callable[[float], int],
        clock: Callable[[], float],
    ) -> None:
        self._prepared = prepared
        self._names = names
        self._fresh = fresh
        self._proposal = proposal
        self._clock = clock
        self._waiter: Owner | None = None
        self._denials = 0
        self._late = 0
        self._begun: Round | None = None
        self.round: Round | None = None
        """In progress, or granted; None once it is undone."""

    # The attempt, as the wait loop calls it.

    def attempt(self, asking: "Asking") -> Generator[Wish, Any, "Answer"]:
        current, self._begun = self._begun, None
        if current is None:
            current = yield from self._ask(asking)
        granted = current.granted()
        if len(granted) >= self._prepared.majority:
            grant = yield from self._agreed(current, granted)
            if grant is not None:
                return grant
        said = current.answers
        yield from self.undo()
        return self._refusal(asking, said)

    def begin(self, begun: Round) -> None:
        """Starts with a round in which all nodes have already been asked."""
        self._waiter = begun.owner
        self.round = self._begun = begun

    def _ask(self, asking: "Asking") -> Generator[Wish, Any, Round]:
        if self.round is not None:
            yield from self.undo()
        if self._waiter is None:
            self._waiter = asking.owner  # nodes ring this owner for the whole wait
        else:
            asking.owner = self._fresh()
        now = self._clock()
        patience = asking.patience(now)
        steps, limits = self._prepared.vote_steps(
            asking.owner, waiter=self._waiter, now=now, patience=patience, proposal=self._proposal(now)
        )
        self.round = current = Round(asking.owner, limits)
        current.answers = yield Fan(steps, self._is_certain, list, patience, current.connections)
        return current

    def park_owner(self) -> Owner:
        assert self._waiter is not None
        return self._waiter

    def _is_certain(self, answers: list[Any]) -> bool:
        majority = self._prepared.majority
        yes = held = 0
        for each in answers:
            kind = each.__class__
            if kind is Grant:
                yes += 1
            elif kind is Denied:
                held += 1
        # Without a majority, wait for all: every node's answer goes into the error.
        return yes >= majority or held > self._prepared.count - majority or None not in answers

    def _agreed(self, current: Round, granted: dict[int, Grant]) -> Generator[Wish, Any, Grant | None]:
        """Returns the grant once a majority has the same fence; None if that fails."""
        majority = self._prepared.majority
        found = [each.fence for each in granted.values()]
        fence = found[0]
        if found.count(fence) < len(found):
            fence, agreed = Counter(found).most_common(1)[0]
        else:
            agreed = len(found)
        if agreed < majority:
            fence = max(found)
            step = self._prepared.agree_step(current.owner, fence)
            steps = [
                step if index in granted and granted[index].fence != fence else None
                for index in range(self._prepared.count)
            ]
            already = found.count(fence)

            def certain(answers: list[Any]) -> bool:
                written = already + answers.count(True)
                pending = sum(1 for each, asked in zip(answers, steps, strict=True) if asked and each is None)
                return written >= majority or written + pending < majority

            written: list[Any] = yield Fan(steps, certain, list, step.patience)
            if already + written.count(True) < majority:
                return None
        # The grant counts from the majority-th latest moment at which the nodes were asked.
        sent = sorted((each.sent for each in granted.values()), reverse=True)[majority - 1]
        expired = next((each.expired for each in granted.values() if each.expired is not None), None)
        return Grant(fence, sent, expired)

    def _refusal(self, asking: "Asking", said: list[Any]) -> "Answer":
        majority = self._prepared.majority
        held = [each for each in said if isinstance(each, Denied)]
        alive = sum(1 for each in said if each is None or isinstance(each, Grant | Denied | Late | Withdrawn))
        if alive < majority:
            self._denials = 0
            return self._no_quorum(said)
        if not held:
            self._late += 1
            # A late clock, or a fence that was not written: ask again. If it persists, report it node by node.
            return Late() if self._late <= MOST_LATE_ROUNDS else self._no_quorum(said)
        holder = Counter(each.holder for each in held).most_common(1)[0][0] or held[0].holder
        left = max(each.left for each in held)
        if asking.wait == 0:
            return Denied(holder or asking.owner, left)
        self._denials += 1
        look = min(asking.retry.pause(self._denials), LONGEST_LOOK)
        return Queued(holder, left, 0, min(look, left) if left > 0 else look)

    def _no_quorum(self, said: list[Any]) -> "Answer":
        refused = [each for each in said if isinstance(each, ServerSaid) and not self._prepared.is_passing(each)]
        if len(refused) >= self._prepared.majority:
            return refused[0]  # a majority refuses: a missing permission, full memory, a foreign key
        nodes = {name: say(each) for name, each in zip(self._names, said, strict=True)}
        could = sum(1 for each in said if not isinstance(each, LinkDown | ServerSaid))
        return NoQuorum(nodes, self._prepared.majority, answered=could >= self._prepared.majority)

    def undo(self) -> Generator[Wish, Any, bool]:
        """Withdraws the round from every node that may have voted. True if all known votes have been taken back."""
        current = self.round
        if current is None:
            return True
        granted, unanswered = current.granted(), current.unanswered()
        steps: list[Step | None] = [None] * self._prepared.count
        for index in granted:
            steps[index] = self._prepared.withdraw_step(current.owner, 0)
        for index, limit in unanswered.items():
            steps[index] = step = self._prepared.withdraw_step(current.owner, 0)
            step.otherwise = self._prepared.withdraw_step(current.owner, limit)
        if not any(steps):
            self.round = None
            return True

        def certain(answers: list[Any]) -> bool:
            return all(answers[index] is not None for index in granted)

        try:
            answers: list[Any] = yield Fan(steps, certain, list, UNDO_SECONDS, after=current.connections, undo=True)
        except (LinkDown, ServerSaid):
            return False
        finally:
            self.round = None  # from here on the driver and the keeper see to it
        return not any(isinstance(answers[index], LinkDown) for index in granted)


def say(answer: Any) -> str:
    """A node's answer, for people."""
    match answer:
        case None:
            return "no answer yet"
        case Grant():
            return "would have voted for us"
        case Denied():
            who = f"owner {owner_text(answer.holder)[:11]}..." if answer.holder else "somebody"
            return f"held by {who}, {answer.left:.3g} s left unless renewed"
        case Guarded():
            return f"started a short while ago: votes again in {answer.left:.3g} s (restart guard)"
        case Late():
            return "got the request too late, or has a clock that is ahead of the others"
        case ForcedOut():
            return "refused: an operator has released it by force"
        case Withdrawn():
            return "refused: the request was withdrawn"
        case _:
            return str(answer)


def deadline_of(good_until: Sequence[float], majority: int) -> float:
    """The moment until which a majority keeps its votes."""
    return sorted(good_until, reverse=True)[majority - 1]


# A renewal that a caller waits for. The keeper renews node by node: see grants/quorum_tenure.py.


class Renewing(Protocol):
    """Told of such a renewal, so that a release during the renewal knows about it."""

    def renewal_begins(self, limits: list[int]) -> None: ...
    def renewal_ends(self, limits: list[int], answers: list[Any]) -> None: ...


def renew(
    prepared: VotingClaim, owner: Owner, told: Renewing, *, fence: int, ttl: float, now: float, patience: float
) -> Plan[list[Any]]:
    """Returns each node's answer."""
    steps, limits = prepared.vote_steps(owner, waiter=NOBODY, now=now, patience=patience, proposal=fence, ttl=ttl)

    def certain(answers: list[Any]) -> bool:
        yes = sum(1 for each in answers if isinstance(each, Grant))
        return yes >= prepared.majority or yes + answers.count(None) < prepared.majority

    answers: list[Any] = [None] * prepared.count
    try:
        told.renewal_begins(limits)
        answers = yield Fan(steps, certain, list, patience)
    finally:
        told.renewal_ends(limits, answers)
    return answers


def all_answered(answers: list[Any]) -> bool:
    return None not in answers
