"""A claim on the nodes of a quorum: every node gets the same requests, except for times on its own clock.

Loaded with the first client of a quorum, not with the package.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdtight.base.clock import Drift
from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import (
    Claim,
    Denied,
    ForcedOut,
    Grant,
    Guarded,
    Kind,
    Late,
    LockInfo,
    Owner,
    Withdrawn,
    shared,
)
from holdtight.errors import LockError
from holdtight.stores.client import Client
from holdtight.stores.redis import error_replies, keys, script
from holdtight.stores.redis.client_records import records_step
from holdtight.stores.redis.fields import cut
from holdtight.stores.redis.handshake import passport
from holdtight.stores.redis.inspection import read_inspection
from holdtight.stores.redis.replies import read_release
from holdtight.stores.redis.resp import bulk, command
from holdtight.stores.redis.script import Script
from holdtight.stores.redis.vote_replies import VoteReplies
from holdtight.stores.times import LONGEST_PATIENCE, TAIL_MS, marker_for

__all__ = [
    "AGREE",
    "BLESS",
    "RESIGN",
    "VOTE",
    "QuorumClaim",
    "QuorumStore",
    "Vote",
    "voted",
]

VOTE = Script("vote")
AGREE = Script("agree")
RESIGN = Script("resign")
BLESS = Script("bless")

_STAMP_MARK = b"s1"
LEARN_SECONDS = 0.02

Vote = Grant | Denied | Guarded | Late | Withdrawn


class QuorumStore:
    """One namespace on the nodes of a quorum. `nodes` has one Client per node, in order."""

    def __init__(self, client: Client, nodes: list[Client], *, drift: Drift, max_ttl: float) -> None:
        self.client = client
        self.nodes = nodes
        self.drift = drift
        self.max_ttl_ms = round(max_ttl * 1000)
        self.stamp = keys.stamp(client.namespace)
        self.majority = len(nodes) // 2 + 1
        self.vote_readers = [partial(read_vote, node) for node in nodes]
        self._learned = 0.0

    def shape(self, claim: Claim) -> "QuorumShape":
        return QuorumShape(self, claim)

    def prepare(self, claim: Claim) -> "QuorumClaim":
        return self.shape(claim).prepare(claim.name)

    def proposal(self, now: float, leads: list[float] | None = None) -> int:
        """A fence that every node with a correct clock can accept: the median of the nodes' clocks, as we know them.

        With an even number, the higher of the middle two: a node whose clock is far ahead of the proposal does not
        vote, and no majority may be that far ahead.
        """
        times = sorted(leads or [node.server_time(now) - now for node in self.nodes])
        return int((now + times[len(times) // 2]) * 1e6)

    def leads(self, now: float) -> list[float] | None:
        """How far each node's clock is ahead of ours; None unless every node has told its time and has our record."""
        found: list[float] = []
        for node in self.nodes:
            lead = node.lead
            if lead is None or now > node.recorded_until:
                return None
            found.append(lead)
        return found

    def learn(self, replies: list[Any], sent: float) -> None:
        """Learns the nodes' times from yes votes, at most once in LEARN_SECONDS: clocks do not drift that fast."""
        if self._learned <= sent < self._learned + LEARN_SECONDS:
            return
        self._learned = sent
        for node, reply in zip(self.nodes, replies, strict=True):
            kind = reply.__class__
            if kind is bytes:
                node.learn_usual(int(reply[16:]) / 1e6, sent)
            elif kind is list and reply[0] == 1:
                node.learn(reply[2] / 1000, sent)

    def bless_step(self, index: int, about: dict[str, Any], now: float, patience: float) -> Step:
        """`about` goes into the audit record."""
        import json

        limit = int((self.nodes[index].server_time(now) + patience) * 1e6)
        return Step(
            BLESS.head(self.stamp, keys.audit(self.client.namespace)),
            bulk(limit) + bulk(about["id"]) + bulk(json.dumps(about)),
            lambda reply, sent: reply == 1,
            patience=patience,
            script=BLESS,
        )

    def records_step(self, owners: list[Owner], holding: int = 0) -> Step:
        return records_step(self.client, owners, holding)

    def meaning(self, said: ServerSaid, name: str) -> LockError:
        key = keys.main_key(self.client.namespace, name)
        return error_replies.meaning(said, name=name, server="a majority of the nodes", key=key)

    def stamp_step(self) -> Step:
        """Reads the stamp of a node's guard: (since in ms, max_ttl in ms, run id), or () if it has none. Not None,
        which means that the node has not answered yet."""
        return Step(command("GET", self.stamp), None, _read_stamp, patience=LONGEST_PATIENCE)


class QuorumShape:
    """What all claims with the same options have in common, whatever their names. `claim` has no name."""

    __slots__ = ("_heads", "_mode", "claim", "store", "valid")

    def __init__(self, store: QuorumStore, claim: Claim) -> None:
        self.store = store
        self.claim = claim
        self.valid = shared(store.drift.valid(claim.ttl))
        self._mode = bulk("r" if claim.kind is Kind.SHARED else "x")
        self._heads: dict[int, tuple[bytes, bytes]] = {}

    def prepare(self, name: str) -> "QuorumClaim":
        return QuorumClaim(self, name)

    def heads(self, size: int) -> tuple[bytes, bytes]:
        """Templates of a vote and a resignation, for main keys of this size."""
        found = self._heads.get(size)
        if found is None:
            own = b"$%d\r\n%b\r\n" % (size, keys.HOLE)
            found = VOTE.start + own + self.terms_of_vote(self.claim.ttl), RESIGN.start + own
            self._heads[size] = found
        return found

    def terms_of_vote(self, ttl: float) -> bytes:
        """The arguments after the main key."""
        ms = max(1, round(ttl * 1000)) + TAIL_MS
        return bulk(self.store.stamp) + self._mode + bulk(ms) + bulk(self.claim.label or "")


class QuorumClaim:
    """One claim on a quorum. Builds requests and reads replies; core/quorum.py decides what they mean together."""

    __slots__ = ("_main", "_usual", "name", "resign_head", "shape", "wanted")

    max_waiters = 0

    def __init__(self, shape: QuorumShape, name: str) -> None:
        self.shape = shape
        self.name = name
        self.wanted = False
        self._main = main = keys.main_key(shape.store.client.namespace, name)
        vote, resign = shape.heads(len(main))
        self._usual = vote.replace(keys.HOLE, main)
        self.resign_head = resign.replace(keys.HOLE, main)

    @property
    def store(self) -> QuorumStore:
        return self.shape.store

    @property
    def claim(self) -> Claim:
        return self.shape.claim._replace(name=self.name)

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys.beside(self._main)

    @property
    def valid(self) -> float:
        return self.shape.valid

    @property
    def count(self) -> int:
        return len(self.store.nodes)

    @property
    def majority(self) -> int:
        return self.store.majority

    def _head(self, ttl: float) -> bytes:
        return VOTE.start + bulk(self._main) + self.shape.terms_of_vote(ttl)

    def arrival_limit(self, index: int, now: float, patience: float) -> int:
        """`not_after` of a vote sent now, in that node's ms and rounded up: a marker must outlive it."""
        return marker_for((self.store.nodes[index].server_time(now) + patience) * 1e6)

    def is_past(self, index: int, limit: int, now: float) -> bool:
        return self.store.nodes[index].server_time(now) * 1000 > limit

    def vote_steps(
        self, owner: Owner, *, waiter: Owner, now: float, patience: float, proposal: int, ttl: float | None = None
    ) -> tuple[list[Step], list[int]]:
        """For every node: the vote for this owner, and its arrival limit. The node rings `waiter` after it has denied
        the vote; `NOBODY` renews a lease, and the proposal is then the fence of that lease."""
        head = self._usual if ttl is None else self._head(ttl)
        before = b"%b%b$16\r\n%016d\r\n" % (head, bulk(waiter), proposal)
        until = now + patience
        limits = [int(node.server_time(until) * 1e6) for node in self.store.nodes]
        steps = [
            Step(
                before,
                b"$16\r\n%016d\r\n$24\r\n%b\r\n" % (limit, owner),
                read,
                patience=patience,
                script=VOTE,
            )
            for limit, read in zip(limits, self.store.vote_readers, strict=True)
        ]
        return steps, [marker_for(limit) for limit in limits]

    def vote_requests(
        self, owner: Owner, *, now: float, patience: float, leads: list[float], inbox_args: Sequence[bytes]
    ) -> tuple[list[bytes], list[int], int]:
        """The same requests as bytes, their limits, and the proposal. `leads` are the store's; `inbox_args` has the
        encoded inbox argument of each connection."""
        proposal = self.store.proposal(now, leads)
        head = b"%b$24\r\n%b\r\n$16\r\n%016d\r\n" % (self._usual, owner, proposal)
        until = now + patience
        requests: list[bytes] = []
        limits: list[int] = []
        for inbox_arg, lead in zip(inbox_args, leads, strict=True):
            limit = int((until + lead) * 1e6)
            limits.append(limit)
            requests.append(b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (head, inbox_arg, limit, owner))
        return requests, limits, proposal

    def resign_request(self, owner: Owner) -> bytes:
        """Sent to every node, on the connection that carried the vote."""
        return b"%b$24\r\n%b\r\n" % (self.resign_head, owner)

    def read_votes(self, replies: list[Any], sent: float) -> list[Any]:
        """Reads replies to `vote_requests`. None, or an exception, stands for a missing reply and is kept."""
        return [
            reply if reply is None or isinstance(reply, Exception) else _VOTED.made_of((node, reply), sent)
            for node, reply in zip(self.store.nodes, replies, strict=True)
        ]

    def read_releases(self, replies: list[Any]) -> list[Any]:
        """Reads replies to `resign_step` in the same way."""
        return [
            reply if reply is None or isinstance(reply, Exception) else _RESIGNED.made_of(reply, 0.0)
            for reply in replies
        ]

    def renew_request(
        self, index: int, run: bytes, owner: Owner, fence: int, now: float, ttl: float, patience: float
    ) -> bytes:
        """The vote as the keeper sends it: without a waiter to ring. It restores the vote on a node that lost it."""
        limit = int((self.store.nodes[index].server_time(now) + patience) * 1e6)
        head = self._usual if ttl == self.shape.claim.ttl else self._head(ttl)
        return b"%b$0\r\n\r\n$16\r\n%016d\r\n$0\r\n\r\n%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (
            head,
            fence,
            bulk(passport(self.store.max_ttl_ms, run)),
            limit,
            owner,
        )

    def agree_step(self, owner: Owner, fence: int) -> Step:
        return Step(
            AGREE.head(*self.keys) + bulk(owner) + bulk(fence) + bulk(round(self.claim.ttl * 1000)),
            None,
            lambda reply, sent: reply == 1,
            patience=LONGEST_PATIENCE,
            script=AGREE,
        )

    def resign_step(self, owner: Owner, marker: int = 0) -> Step:
        """With a marker: a vote of this owner may still arrive, so the plain resignation is safe only behind it on the
        same connection; on any other, `otherwise` leaves the marker."""
        return _Resign(self, owner, marker)

    def resign_step_after(self, owner: Owner, vote_replies: "VoteReplies", index: int) -> Step:
        """The step for `resign_request` on that node, where the vote used the same connection."""
        return _Resign(self, owner, vote_replies.marker(index))

    def withdraw_step(self, owner: Owner, marker: int) -> Step:
        """The answer is Denied if this owner had no vote there."""
        return Step(
            keys.pack(script.WITHDRAW.longest_start, self._main)
            + b"$24\r\n%b\r\n%b$1\r\n!\r\n" % (owner, bulk(marker)),
            None,
            read_release,
            patience=1.0,
            script=script.WITHDRAW,
            undo=True,
        )

    def inspect_step(self, most: int) -> Step:
        name = self.claim.name

        def read(reply: Any, sent: float) -> LockInfo:
            return read_inspection(name, reply, most)

        request = script.INSPECT.head(*self.keys) + bulk(most)
        return Step(request, None, read, patience=LONGEST_PATIENCE, script=script.INSPECT)

    def is_passing(self, said: ServerSaid) -> bool:
        return error_replies.is_passing(said)

    def meaning(self, said: ServerSaid) -> LockError:
        server = "a majority of the nodes"
        return error_replies.meaning(
            said, name=self.claim.name, server=server, key=self.keys.main, kind=self.claim.kind
        )


class _Resign(Step):
    """Builds `otherwise` on demand, since it is almost never needed."""

    __slots__ = ("_marker", "_owner", "_prepared")

    def __init__(self, prepared: QuorumClaim, owner: Owner, marker: int) -> None:
        self.before = prepared.resign_request(owner)
        self.after = None
        self.read = read_release
        self.patience = LONGEST_PATIENCE
        self.script = RESIGN
        self.undo = True
        self.aside = False
        self._prepared, self._owner, self._marker = prepared, owner, marker

    @property
    def otherwise(self) -> Step | None:  # type: ignore[override]
        return self._prepared.withdraw_step(self._owner, self._marker) if self._marker else None


def read_vote(node: Client, reply: Any, sent: float) -> Vote:
    if reply.__class__ is bytes:
        node.learn(int(reply[16:]) / 1e6, sent)
        return Grant(int(reply[:16]), sent)
    if reply[0] == 1:
        _, fence, now, expired = reply
        node.learn(now / 1000, sent)
        return Grant(int(fence), sent, expired or None)
    node.learn(reply[1] / 1000, sent)
    match reply:
        case [0, _, holder, left]:
            return Denied(holder or None, left / 1000)
        case [-4, _, left]:
            return Guarded(left / 1000)
        case [-1, _]:
            return Late()
        case [-5, _]:
            return ForcedOut()
        case _:
            return Withdrawn()


_VOTED = Step(b"", None, lambda pair, sent: read_vote(pair[0], pair[1], sent), patience=LONGEST_PATIENCE, script=VOTE)
"""The step for replies to `vote_requests`, which `read_votes` reads."""


def voted(index: int) -> Step:
    return _VOTED


_RESIGNED = Step(b"", None, read_release, patience=LONGEST_PATIENCE, script=RESIGN)


def _read_stamp(reply: Any, sent: float) -> tuple[int, int, bytes] | tuple[()]:
    if not isinstance(reply, bytes) or cut("KIND_OF", reply) != _STAMP_MARK:
        return ()
    return int(cut("SINCE_OF", reply)), int(cut("STAMP_MAX_TTL_OF", reply)), cut("STAMP_RUN_OF", reply)
