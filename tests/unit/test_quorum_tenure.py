"""A tenure on five nodes: whose votes count until when; and the breaker of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdtight import Locks, LossReason
from holdtight.base.breaker import Breaker
from holdtight.base.plan import LinkDown
from holdtight.base.values import Kind, owner_text
from holdtight.events import Event, HeldLong
from holdtight.grants.quorum_tenure import FirstCharge, NodeCharge, QuorumTenure
from holdtight.stores.redis.vote_replies import VoteReplies

URLS = [f"redis://node-{number}" for number in range(5)]
OWNER = b"o" * 24
RUN = b"r" * 40


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client without nodes: nothing is sent, and the test decides the answers and the time."""
    with Locks(URLS, ttl=10) as locks:
        monkeypatch.setattr(locks.place, "clock", clock)
        for node in locks.place.store.nodes:
            monkeypatch.setattr(node, "clock", clock)
        yield locks


def tenure_on(locks: Any, *nodes: int, markers: dict[int, int] | None = None, **options: Any) -> QuorumTenure:
    lock = locks.lock("a", **options)
    sent = dict.fromkeys(nodes, 1000.0)
    return QuorumTenure(lock.terms, lock.prepared, lambda hook: None, OWNER, 7, sent, markers or {}, [None] * 5, 1000.0)


def test_a_tenure_that_all_nodes_were_asked_for_at_once_is_the_same_when_it_is_looked_into(
    locks: Any, clock: Clock
) -> None:
    yes, limit = b"%016d%016d" % (7, 1_700_000_000_000_000), 1_700_000_002_000_000
    replies = [yes, None, [1, b"7", 1_700_000_000_000, b""], LinkDown("gone", sent=True), yes]
    connections: tuple[Any, ...] = ("a", "b", "c", "d", "e")
    for node in locks.place.store.nodes:
        node.learn(1_700_000_000.0, clock.now)
    lock = locks.lock("a")
    markers = {1: limit // 1000 + 50, 3: limit // 1000 + 50}
    vote_replies = VoteReplies(replies, [limit] * 5, connections)
    tenure = QuorumTenure.of_one_moment(lock.terms, lock.prepared, lambda hook: None, OWNER, 7, clock.now, vote_replies)
    known = tenure_on(locks, 0, 2, 4, markers=markers)
    assert (tenure.deadline, tenure.good_until, tenure.nodes) == (known.deadline, known.good_until, known.nodes)
    assert tenure.markers == known.markers
    left = tenure.finish()
    assert (left.holding, left.markers) == ({0, 2, 4}, markers)
    assert [left.connections[index] for index in markers] == ["b", "d"]


def test_when_nothing_can_come_any_more_a_node_that_may_have_voted_is_told_as_one_that_has(
    locks: Any, clock: Clock
) -> None:
    for node in locks.place.store.nodes:
        node.learn(1_700_000_000.0, clock.now)
    tenure = tenure_on(locks, 0, 1, 2, markers={3: 1_700_000_002_000})
    clock.now += 3
    left = tenure.finish()
    assert (left.holding, left.markers) == ({0, 1, 2, 3}, {})


def test_it_ends_at_once_only_if_no_node_was_asked_for_more(locks: Any, clock: Clock) -> None:
    def made() -> QuorumTenure:
        vote_replies = VoteReplies([b"%016d%016d" % (7, 7)] * 5, [7] * 5, ())
        lock = locks.lock("a")
        return QuorumTenure.of_one_moment(
            lock.terms, lock.prepared, lambda hook: None, OWNER, 7, clock.now, vote_replies
        )

    renewed, refused, untouched = made(), made(), made()
    assert charge(renewed, 3).request(clock.now) is not None
    refused.refused_on(1, LossReason.TAKEN)
    assert not renewed.finish_at_once()
    assert not refused.finish_at_once()
    assert not tenure_on(locks, 0, 1, 2).finish_at_once()
    assert untouched.finish_at_once()
    assert not untouched.alive


def charge(tenure: QuorumTenure, index: int) -> NodeCharge:
    if not tenure.charges:  # as they are once it is not young any more
        tenure.charges = [NodeCharge(tenure, number) for number in range(5)]
    found = tenure.charges[index]
    assert isinstance(found, NodeCharge)
    return found


def granted(fence: int = 7) -> list[Any]:
    return [1, b"%d" % fence, 1_700_000_000_000, b""]


class List:
    """Stands in for the keeper: records its charges."""

    def __init__(self) -> None:
        self.charges: list[Any] = []
        self.keeper = self

    def add(self, charge: Any, now: float) -> None:
        self.charges.append(charge)

    def drop(self, charge: Any) -> None:
        if charge in self.charges:
            self.charges.remove(charge)


def test_one_charge_stands_for_all_nodes_until_the_tenure_is_not_young(
    locks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, tenure = List(), tenure_on(locks, 0, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(locks.place, "runtime", kept)
        tenure.keep(1000.0)
        (first,) = kept.charges
        assert isinstance(first, FirstCharge)
        assert first.deadline == 1001.0, "due when its deadline is: the keeper asks no node then, which may be down"
        kept.drop(first)
        first.overdue()
        assert [type(each) for each in kept.charges] == [NodeCharge] * 5
        assert not first.alive
        first.overdue()
        assert len(kept.charges) == 5
        tenure.finish()
        tenure.drop()
        assert kept.charges == []


def test_a_tenure_that_ends_while_it_is_young_is_watched_as_it_is(locks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, tenure = List(), tenure_on(locks, 0, 1, 2, max_hold=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(locks.place, "runtime", kept)
        tenure.keep(1000.0)
        assert {type(each) for each in kept.charges} == {NodeCharge}


def test_it_is_valid_as_long_as_a_majority_keeps_its_vote(locks: Any, clock: Clock) -> None:
    tenure = tenure_on(locks, 0, 1, 2)
    valid = tenure.terms.valid
    assert tenure.deadline == 1000 + valid
    assert tenure.nodes == tuple(locks.place.names[:3])
    for index in (0, 1):
        charge(tenure, index).answered(granted(), 1003.0)
    assert tenure.deadline == 1000 + valid, "two are no majority"
    charge(tenure, 3).answered(granted(), 1002.0)
    assert tenure.deadline == 1002 + valid, "the third latest of 1003, 1003, 1002 and 1000"
    clock.now = 1002 + valid
    assert tenure.lost()


def test_a_node_that_says_no_does_not_count_and_a_majority_of_them_is_the_end(locks: Any) -> None:
    tenure = tenure_on(locks, 0, 1, 2, 3)
    charge(tenure, 0).answered([0, 1_700_000_000_000, b"h" * 24, 5000], 1003.0)
    assert not tenure.lost()
    assert len(tenure.nodes) == 3
    charge(tenure, 1).answered([-4, 1_700_000_000_000, 5000], 1003.0)
    assert tenure.reason is LossReason.TAKEN


def test_nodes_that_lost_it_by_a_restart_are_an_expiry(locks: Any) -> None:
    tenure = tenure_on(locks, 0, 1, 2)
    charge(tenure, 0).answered([-4, 1_700_000_000_000, 5000], 1003.0)
    assert tenure.reason is LossReason.EXPIRED


def test_what_is_lost_stays_lost(locks: Any, clock: Clock) -> None:
    tenure = tenure_on(locks, 0, 1, 2)
    clock.now = 1000 + tenure.terms.valid
    for index in range(5):
        charge(tenure, index).answered(granted(), clock.now - 1)
    assert tenure.lost()
    assert tenure.deadline == 1000 + tenure.terms.valid


def test_silence_of_a_minority_is_no_doubt_and_of_a_majority_is(locks: Any) -> None:
    tenure: Any = tenure_on(locks, 0, 1, 2, 3, 4)
    charge(tenure, 0).unanswered("gone")
    charge(tenure, 1).unanswered("gone")
    assert not str(tenure.doubt or "")
    charge(tenure, 2).unanswered("gone")
    assert "gone" in str(tenure.doubt)


def test_a_loss_that_is_noticed_in_time_is_the_nodes_and_a_late_one_our_own_pause(locks: Any, clock: Clock) -> None:
    awake, asleep = tenure_on(locks, 0, 1, 2), tenure_on(locks, 0, 1, 2)
    clock.now = awake.deadline + 0.01
    assert awake.lost()
    assert awake.reason is LossReason.UNREACHABLE
    clock.now += 60
    assert asleep.lost()
    assert asleep.reason is LossReason.EXPIRED


def test_a_renewal_under_way_at_the_release_is_refused_by_a_marker(locks: Any, clock: Clock) -> None:
    """It would create the vote anew."""
    tenure = tenure_on(locks, 0, 1, 2)
    assert charge(tenure, 1).request(clock.now) is not None
    assert charge(tenure, 2).request(clock.now) is not None
    charge(tenure, 2).answered(granted(), clock.now)
    charge(tenure, 3).request(clock.now)
    charge(tenure, 3).unanswered("the connection broke")
    finish = tenure.finish()
    assert finish.holding == {0, 1, 2}
    assert set(finish.markers) == {1, 3}
    assert charge(tenure, 0).request(clock.now) is None, "nothing is sent after the end"


@pytest.mark.parametrize(("leads", "proposed"), [((0, 0, 9, 60, 60), 9), ((0, 0, 60, 60), 60), ((0, 60), 60)])
def test_no_majority_is_ever_ahead_of_what_is_proposed(locks: Any, leads: tuple[int, ...], proposed: int) -> None:
    """A node that is far ahead of it does not vote."""
    store = locks.place.store
    store.nodes = store.nodes[: len(leads)]
    for node, lead in zip(store.nodes, leads, strict=True):
        node.learn(1000.0 + lead, 1000.0)
    assert store.proposal(1000.0) == (1000 + proposed) * 1_000_000


def test_a_request_of_the_keeper_says_to_which_run_of_the_server_it_goes(locks: Any, clock: Clock) -> None:
    tenure = tenure_on(locks, 0, 1, 2)
    locks.place.nodes[4].kept_run = RUN
    request = charge(tenure, 4).request(clock.now)
    assert request is not None
    assert RUN in request
    assert OWNER in request


def test_max_hold_bounds_it_whatever_the_nodes_say(locks: Any) -> None:
    tenure = tenure_on(locks, 0, 1, 2, max_hold=3)
    for index in range(5):
        charge(tenure, index).answered(granted(), 1002.0)
    assert tenure.deadline == pytest.approx(1003.0)


def test_a_grant_that_is_renewed_for_ten_ttls_is_told_of_once(locks: Any, clock: Clock) -> None:
    told = list[Event]()
    locks.events.emit_later = told.append
    tenure = tenure_on(locks, 0, 1, 2, 3, 4)
    for seconds in range(3, 300, 3):
        clock.now = 1000.0 + seconds
        for node in range(5):
            tenure.renewed_on(node, clock.now, 10.0)
        if seconds < 99:
            assert told == []
    assert told == [HeldLong("a", owner_text(OWNER), 7, 102.0, kind=Kind.EXCLUSIVE)]
    tenure.ended = True


def test_set_terms_sets_the_time_left_and_never_adds(locks: Any) -> None:
    tenure = tenure_on(locks, 0, 1, 2, 3, 4)
    tenure.set_terms({0: 1001.0, 1: 1001.0, 2: 1001.0}, 2.0, 2.0)
    assert 1002.9 < tenure.deadline < 1003.0
    tenure.drop()


# The breaker


class Node:
    """What the breaker has told of it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def made(self) -> None:
        self.told.append("up")

    def not_made(self, cause: str) -> None:
        self.told.append(cause)


def test_a_node_counts_as_down_while_the_breaker_skips_it() -> None:
    node = Node()
    breaker = Breaker(node)
    breaker.failed(1000.0, "first")
    breaker.worked()
    assert node.told == [], "one failure is forgiven"
    breaker.failed(1000.0, "first")
    breaker.failed(1000.0, "second")
    breaker.worked()
    breaker.worked()
    assert node.told == ["second", "up"]


def test_one_failure_is_forgiven_and_more_are_left_alone_for_a_while() -> None:
    breaker = Breaker(Node())
    breaker.failed(1000.0, "gone")
    assert not breaker.is_open(1000.0)
    assert not breaker.is_open(999.9), "the caller may have read the clock just before it failed"
    breaker.failed(1000.0, "gone")
    assert breaker.is_open(1000.0)
    assert not breaker.is_open(1000.05), "half open: a probe may go"
    for _ in range(20):
        breaker.failed(2000.0, "gone")
    assert breaker.is_open(2000.4)
    assert not breaker.is_open(2001.0), "never for longer than a second"
    breaker.worked()
    assert not breaker.is_open(2000.0)


def test_the_end_of_one_connection_is_one_failure() -> None:
    breaker, connection = Breaker(Node()), object()
    for _ in range(100):
        breaker.failed_once(1000.0, "gone", connection)
    assert not breaker.is_open(1000.0)
