"""A grant on a quorum: leases refer to it, and the keeper renews it node by node, each at its own pace.

A renewal is another vote under the same owner, so it heals a node that has lost its vote. See core/quorum.py for what
makes a majority.

Invariants:
- `good_until[i]` is until when node i keeps its vote, counted from before it was asked; 0 if it has no vote of ours;
- the deadline is the majority-th largest of them. A lost lease stays lost, whatever is answered later;
- a renewal creates a missing vote, so none may be sent after the release has checked which are in flight: both check
  and mark under one lock.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdtight.base.values import Denied, ForcedOut, Grant, Guarded, Late, LossReason, Owner
from holdtight.core.quorum import deadline_of
from holdtight.core.renewal import next_ttl
from holdtight.errors import NotOwner
from holdtight.grants.tenure import Deliver, Tenure, Terms
from holdtight.stores.boundary import Place
from holdtight.stores.redis.quorum_place import QuorumPlace
from holdtight.stores.redis.quorum_store import QuorumClaim, read_vote
from holdtight.stores.redis.vote_replies import VoteReplies
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.keeper.keeper import Charge

__all__ = ["Finish", "QuorumTenure"]

_RLock = type(threading.RLock())  # the class itself, without the factory function around it
NOTICED_IN_TIME = 0.25
SETTLED_SECONDS = 1.0
_UNFOLDED = frozenset({"good_until", "markers", "under_way", "_connections", "_doubts", "_refusals", "_told_until"})


class Finish(NamedTuple):
    """What the release of a tenure needs to know: see core/quorum.py."""

    holding: set[int]
    markers: dict[int, int]
    connections: list[Any]


class QuorumTenure(Tenure):
    """One grant on a quorum."""

    vote_replies: VoteReplies | None = None
    """The replies of all nodes, if one request to all of them gave the grant."""
    asked_since = False
    """Some nodes have been sent further requests since the grant."""
    charges: "Sequence[Charge]" = ()
    renewals: tuple[list[int], ...] = ()
    """For each renewal in progress that a caller waits for: until when each node may carry it out."""

    def __init__(
        self,
        terms: Terms,
        prepared: Any,
        deliver: Deliver,
        owner: Owner,
        fence: int,
        sent: dict[int, float],
        markers: dict[int, int],
        connections: list[Any],
        grant_sent: float,
    ) -> None:
        super().__init__(terms, prepared, deliver, owner, fence, grant_sent, 0)
        self._prepared = cast(QuorumClaim, prepared)
        self._changing = threading.RLock()
        count = self._prepared.count
        self._begin(
            [sent[index] + terms.valid if index in sent else 0.0 for index in range(count)], markers, connections
        )
        self._settle()

    @property
    def place(self) -> QuorumPlace:
        return cast(QuorumPlace, self.terms.place)

    @classmethod
    def of_one_moment(
        cls,
        terms: Terms,
        prepared: Any,
        deliver: Deliver,
        owner: Owner,
        fence: int,
        sent: float,
        vote_replies: VoteReplies,
    ) -> "QuorumTenure":
        """All nodes were asked at `sent`, and a majority granted. `vote_replies` is evaluated only when needed."""
        tenure = cls.__new__(cls)
        Tenure.__init__(tenure, terms, prepared, deliver, owner, fence, sent, 0)
        tenure._prepared = prepared
        tenure._changing = _RLock()
        tenure.vote_replies = vote_replies
        return tenure

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str):
            if attribute not in _UNFOLDED:
                raise AttributeError(attribute)
            with self._changing:
                if attribute not in self.__dict__:
                    self._unfold(self.__dict__["vote_replies"])
            return self.__dict__[attribute]

    def _unfold(self, vote_replies: VoteReplies) -> None:
        until = self.since + self.terms.valid
        markers = {
            index: vote_replies.marker(index)
            for index in range(len(vote_replies.replies))
            if vote_replies.is_unanswered(index)
        }
        self._begin([until if yes else 0.0 for yes in vote_replies.granted()], markers, vote_replies.connections)

    def _begin(self, good_until: list[float], markers: dict[int, int], connections: Sequence[Any]) -> None:
        self.good_until = good_until
        count = len(good_until)
        self.markers = [0] * count
        """Until when (each node's ms) an unanswered request may still be carried out there; 0 for none."""
        self._connections: list[Any] = [None] * count
        """The connection by which that request was sent."""
        for index, limit in markers.items():
            self.markers[index] = limit
            self._connections[index] = connections[index]
        self.under_way = [0] * count
        """As `markers`, for the keeper's renewal in flight."""
        self._doubts: dict[int, str] = {}
        self._refusals: dict[int, LossReason] = {}
        self._told_until = self.deadline

    @property
    def nodes(self) -> tuple[str, ...]:
        now = self.place.clock()
        return tuple(name for name, until in zip(self.place.names, self.good_until, strict=True) if until > now)

    def keep(self, sent: float) -> None:
        """Registers one charge for all nodes at first: most locks are released long before a renewal is due."""
        if self.terms.renew and self.interval > SETTLED_SECONDS and self.deadline > sent + SETTLED_SECONDS:
            first = FirstCharge(self, sent)
            self.charges = [first]
            self.place.runtime.keeper.add(first, sent)
        else:
            self.keep_each(sent)

    def keep_each(self, sent: float, instead_of: "FirstCharge | None" = None) -> None:
        with self._changing:
            if not self.alive or (instead_of is not None and instead_of not in self.charges):
                return
            numbers = range(self._prepared.count) if self.terms.renew else range(1)
            self.charges = [NodeCharge(self, index) for index in numbers]
            for charge in self.charges:
                self.place.runtime.keeper.add(charge, sent)

    def drop(self) -> None:
        with self._changing:
            for charge in self.charges:
                self.place.runtime.keeper.drop(charge)

    def finish_at_once(self) -> bool:
        """Ends the tenure if the release can go to all nodes on the connections of the vote; else call `finish`."""
        with self._changing:
            if self.vote_replies is None or self.asked_since:
                return False
            self.ended = True
        return True

    def finish(self) -> "Finish":
        """Ends the tenure. Returns which nodes may have our vote, and which may still receive a request of ours."""
        with self._changing:
            self.ended = True
            now = self.place.clock()
            holding = {index for index, until in enumerate(self.good_until) if until}
            markers: dict[int, int] = {}
            connections = self._connections.copy()
            for index, under_way in enumerate(self.under_way):
                if under_way or self.renewals:
                    connections[index] = None
                limit = max(under_way, self.markers[index], *[limits[index] for limits in self.renewals])
                if limit:
                    if self._prepared.is_past(index, limit, now):
                        holding.add(index)  # nothing can arrive any more, but it may have voted without our knowledge
                    else:
                        markers[index] = limit
        return Finish(holding, markers, connections)

    # Votes.

    def renewed_on(self, index: int, sent: float, ttl: float) -> None:
        terms = self.terms
        with self._changing:
            if not self.alive or self.place.clock() >= self.deadline:
                return
            until = sent + (terms.valid if ttl == terms.ttl else terms.drift.valid(ttl))
            self.good_until[index] = max(self.good_until[index], until)
            self._doubts.pop(index, None)
            self._refusals.pop(index, None)
            self._settle()
        if self.deadline > self._told_until + self.interval / 2:
            before, self._told_until = self._told_until, self.deadline
            self.doubt = None
            if sent - self.since >= terms.warn_after:
                self.tell_held_long()
            if terms.events.active:
                self.tell_renewed(before)

    def refused_on(self, index: int, reason: LossReason) -> None:
        """The node has no vote for us and refuses one."""
        with self._changing:
            if not self.alive:
                return
            self.asked_since = True
            self.good_until[index] = 0.0
            self._refusals[index] = reason
            self._settle()
            reasons = list(self._refusals.values())
        if self.place.clock() >= self.deadline:
            worst = (LossReason.FORCED, LossReason.TAKEN)
            self.lose(next((each for each in worst if each in reasons), LossReason.EXPIRED))

    def unanswered_on(self, index: int, cause: str) -> None:
        with self._changing:
            self._doubts[index] = cause
            missing = len(self._doubts.keys() | self._refusals.keys())
        if missing > self._prepared.count - self._prepared.majority:
            names = self.place.names
            self.unanswered("; ".join(f"{names[at]}: {said}" for at, said in sorted(self._doubts.items())))

    def renewal_begins(self, limits: list[int]) -> None:
        """A caller starts a renewal with these arrival limits. Raises NotOwner if the lock was released meanwhile."""
        with self._changing:
            if not self.alive:
                raise NotOwner.on("renew", self.name, self.reason)
            self.asked_since = True
            self.renewals = (*self.renewals, limits)

    def renewal_ends(self, limits: list[int], answers: list[Any]) -> None:
        """Records each node's answer; None stands for no answer."""
        with self._changing:
            self.renewals = tuple(each for each in self.renewals if each is not limits)
            for index, answer in enumerate(answers):
                if not isinstance(answer, Grant | Denied | Guarded | ForcedOut):
                    self.left_unanswered(index, limits[index])
                elif isinstance(answer, Grant) and not self.good_until[index]:
                    self.good_until[index] = answer.sent  # it has our vote, whatever the renewal's outcome

    def set_terms(self, sent: dict[int, float], ttl: float, asked: float) -> None:
        """Applies a caller's renewal; `sent` has the nodes that granted it. Sets the time left, never adds to it."""
        until = self.terms.drift.valid(asked)
        with self._changing:
            self.asked_since = True
            earliest = min(sent.values())
            self.good_until = [
                sent[index] + until if index in sent else min(each, earliest + until)
                for index, each in enumerate(self.good_until)
            ]
            self.ttl = ttl
            self._settle()
        self.drop()
        self.interval = ttl / 3 if self.terms.renew else until
        self.keep(earliest)

    def left_unanswered(self, index: int, limit: int) -> None:
        """An unanswered request may be carried out on this node until `limit`."""
        with self._changing:
            self.asked_since = True
            self._connections[index] = None
            self.markers[index] = max(self.markers[index], limit)

    def _overdue(self) -> LossReason:
        found = super()._overdue()
        on_time = self.place.clock() - self.deadline < NOTICED_IN_TIME
        if found is LossReason.EXPIRED and self.terms.renew and on_time:
            return LossReason.UNREACHABLE  # this process was awake, but too few nodes answered
        return found

    def _settle(self) -> None:
        deadline = deadline_of(self.good_until, self._prepared.majority)
        self.deadline = deadline if self.hold_until is None else min(deadline, self.hold_until)


class FirstCharge:
    """Keeps a young tenure. After SETTLED_SECONDS a charge for each node replaces it."""

    interval = SETTLED_SECONDS
    alive = True

    def __init__(self, tenure: QuorumTenure, sent: float) -> None:
        self.tenure = tenure
        self.place: Place = tenure.place.nodes[0]
        self._sent = sent
        self.deadline = sent + SETTLED_SECONDS

    def overdue(self) -> None:
        """Called by the keeper at the deadline; no node is asked."""
        self.alive = False
        self.tenure.keep_each(self._sent, instead_of=self)

    def request(self, now: float) -> bytes | None:
        return None

    def answered(self, reply: Any, sent: float) -> bool:
        return False

    def unanswered(self, cause: str) -> None: ...

    def late(self, by: float) -> None: ...


class NodeCharge:
    """The keeper's charge for one node of a tenure."""

    def __init__(self, tenure: QuorumTenure, index: int) -> None:
        self.tenure = tenure
        self.place: Place = tenure.place.nodes[index]
        self._node = tenure.place.nodes[index]
        self.owner = tenure.owner
        self._index = index
        self._asked = tenure.ttl

    @property
    def interval(self) -> float:
        return self.tenure.interval

    @property
    def deadline(self) -> float:
        return self.tenure.deadline

    @property
    def alive(self) -> bool:
        return self.tenure.alive

    def request(self, now: float) -> bytes | None:
        tenure = self.tenure
        terms = tenure.terms
        prepared = cast(QuorumClaim, tenure.prepared)
        block = tenure.block
        if not terms.renew or now >= tenure.deadline or (block is not None and block.stranded):
            return None
        patience = min(LONGEST_PATIENCE, tenure.deadline - now)
        with tenure._changing:  # pyright: ignore[reportPrivateUsage]
            if not tenure.alive:
                return None
            self._asked = next_ttl(tenure.ttl, now, tenure.hold_until, terms.drift)
            self._leave_unanswered()
            tenure.asked_since = True
            tenure.under_way[self._index] = prepared.arrival_limit(self._index, now, patience)
        return prepared.renew_request(
            self._index, self._node.kept_run, tenure.owner, tenure.fence, now, self._asked, patience
        )

    def answered(self, reply: Any, sent: float) -> bool:
        tenure, index = self.tenure, self._index
        if isinstance(reply, Exception):
            tenure.unanswered_on(index, str(reply))
            return False
        vote = read_vote(self._node.client, reply, sent)
        with tenure._changing:  # pyright: ignore[reportPrivateUsage]
            tenure.under_way[index] = 0
        if isinstance(vote, Grant):
            tenure.renewed_on(index, sent, self._asked)
            return True
        if isinstance(vote, Late):
            tenure.unanswered_on(index, "it got the request too late")
        elif isinstance(vote, Denied):
            tenure.refused_on(index, LossReason.TAKEN)
        else:
            tenure.refused_on(index, LossReason.FORCED if isinstance(vote, ForcedOut) else LossReason.EXPIRED)
        return False

    def unanswered(self, cause: str) -> None:
        with self.tenure._changing:  # pyright: ignore[reportPrivateUsage]
            self._leave_unanswered()
        self.tenure.unanswered_on(self._index, cause)

    def _leave_unanswered(self) -> None:
        """An unanswered request may still be carried out, until its arrival limit."""
        tenure, index = self.tenure, self._index
        if tenure.under_way[index]:
            tenure.left_unanswered(index, tenure.under_way[index])
            tenure.under_way[index] = 0

    def overdue(self) -> None:
        self.tenure.lost()

    def late(self, by: float) -> None:
        self.tenure.late(by)
