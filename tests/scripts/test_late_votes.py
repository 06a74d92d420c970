"""The late-packet matrix for one node of a quorum: votes, renewals, agreed fences, and votes that are given back.

An owner asks for its vote, and then it and another do up to three more things. One request of the first is held
back and arrives later. An owner has its vote for at least the time that it was told; a vote that it gave back stays so.

What cannot happen has no cell: after a vote was given back nothing of that owner follows, since every round has an
owner of its own. A renewal never asks for less than before, and a node never shortens (see docs/safety.md). The
memory store is no node of a quorum and has no votes: these cells are played on a real server only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from holdtight.stores.memory.engine import TAIL
from holdtight.stores.redis import script
from tests.scripts.nodes import NAMES, ClockworkNode, fence_of
from tests.scripts.workbench import ALICE, BOB

TTL, LONGER = 10_000, 30_000
PATIENCE = 2_000_000
STEP = 0.1


class Election:
    def __init__(self, node: ClockworkNode, mode: str) -> None:
        self.node, self.mode = node, mode
        node.wire.call("FLUSHALL")
        self._time = 0.0
        self.tick()
        self.kept: Callable[[], Any] | None = None
        self.limit = 0
        self.until: dict[bytes, int] = {}
        """Until when each owner has its vote, as it was told, in ms of the node's time."""
        self.fence = 0

    def tick(self) -> None:
        self._time += STEP
        self.node.at(self._time)

    def send(self, request: Callable[[], Any], lost: bool) -> Any:
        """The answer; None if the request is held back."""
        self.tick()
        if not lost:
            return request()
        self.kept = request
        self.limit = (self.node.now() + PATIENCE) // 1000 + 50
        return None

    def votes(self, who: bytes, lost: bool, *, ttl: int = TTL, mode: str | None = None, waiter: bytes = b"w") -> None:
        """A first vote, or a renewal if there is no waiter to ring."""
        asked = self.mode if mode is None else mode
        proposal = self.node.now() if waiter else self.fence
        not_after = self.node.now() + PATIENCE
        sent = self.node.now() // 1000
        how: dict[str, Any] = {"mode": asked, "ttl": ttl, "proposal": proposal, "waiter": waiter}
        reply = self.send(lambda: self.node.vote(who, not_after=not_after, **how), lost)
        if reply is None and waiter and who == ALICE:
            self.tick()
            reply = self.node.vote(who, not_after=self.node.now() + PATIENCE, **how)  # it is repeated
        if reply and reply[0] == 1:
            self.until[who] = max(self.until.get(who, 0), sent + ttl)
            self.fence = self.fence if who == BOB else fence_of(reply)

    def gives_back(self, who: bytes, lost: bool) -> None:
        self.until.pop(who, None)
        marker = self.limit if self.kept is not None else 0
        self.send(lambda: self.node.resign(who), lost)
        if marker or lost:
            self.node.withdraw(who, max(marker, self.limit))

    def check(self) -> None:
        now, value, left, sharing, *_ = self.node.run(script.INSPECT, NAMES, 100)
        alone = value[:2] == b"x1" and left > 0
        ends = zip(sharing[::3], (now + ms for ms in sharing[2::3]), strict=True)
        holding = {value[3:27]: now + left} if alone else dict(ends)
        for who, until in self.until.items():
            if until > now:
                assert holding.get(who, 0) >= until, f"{who!r} was promised {until - holding.get(who, 0)} ms more"
        strangers = [who for who in holding if who not in self.until]
        assert not strangers, f"{strangers} have votes that nobody counts on"


def votes(election: Election, lost: bool) -> None:
    election.votes(ALICE, lost)


def renews(election: Election, lost: bool) -> None:
    if ALICE in election.until:
        election.votes(ALICE, lost, waiter=b"")


def renews_for_longer(election: Election, lost: bool) -> None:
    if ALICE in election.until:
        election.votes(ALICE, lost, ttl=LONGER, waiter=b"")


def agrees(election: Election, lost: bool) -> None:
    if ALICE in election.until:
        fence = election.fence + 5
        election.send(lambda: election.node.agree(ALICE, fence), lost)


def gives_back(election: Election, lost: bool) -> None:
    if ALICE in election.until:
        election.gives_back(ALICE, lost)


def another_votes(election: Election, lost: bool) -> None:
    election.votes(BOB, False, mode="x")


def another_reads(election: Election, lost: bool) -> None:
    election.votes(BOB, False, mode="r")


def another_gives_back(election: Election, lost: bool) -> None:
    if BOB in election.until:
        election.until.pop(BOB)
        election.tick()
        election.node.resign(BOB)


THEN = [renews, renews_for_longer, agrees, gives_back, another_votes, another_reads, another_gives_back]


@pytest.mark.parametrize("mode", ["x", "r"])
def test_nothing_that_comes_late_breaks_what_a_node_has_promised(timed: ClockworkNode, mode: str) -> None:
    cells, broken = 0, dict[str, str]()
    for length, some in ((1, 1), (2, 1), (3, 4)):
        for rest in itertools.islice(itertools.permutations(THEN, length), 0, None, some):
            verbs = [votes, *rest]
            for late, arrives in itertools.combinations_with_replacement(range(len(verbs)), 2):
                if verbs[late].__name__.startswith("another"):
                    continue
                election = Election(timed, mode)
                try:
                    for at, verb in enumerate(verbs):
                        verb(election, at == late)
                        if at == arrives and election.kept is not None:
                            election.tick()
                            election.kept()
                            cells += 1
                        election.check()
                    election.node.resign(BOB)
                    gives_back(election, False)
                    assert election.node.left() <= TAIL
                except AssertionError as error:
                    told = [verb.__name__ for verb in verbs]
                    broken[f"{told}, {late} late, after {arrives}"] = str(error).split("\n")[0]
    shown = "\n".join(f"{cell}\n    {why}" for cell, why in itertools.islice(broken.items(), 10))
    assert not broken, f"{len(broken)} of {cells} cells, among them:\n{shown}"
    assert cells > 200, "or this shows nothing"
