"""What votes tell a client about the nodes of a quorum: whether the guard has let it pass, and their time."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.stores.client import MUCH_AHEAD, Client
from holdtight.stores.redis.handshake import VOUCHED_SECONDS, InboxArgs
from holdtight.stores.redis.resp import bulk

RUN = b"a" * 40
YES = b"1" * 32


def word(number: int, run: bytes = RUN) -> bytes:
    return bulk(b"ht:inbox:$%d" % number) + bulk(b"000120000" + run)


def vouching(number: int) -> bytes:
    return bulk(b"ht:inbox:$%d" % number) + bulk(b"+000120000" + RUN)


def test_a_connection_vouches_once_a_vote_by_it_has_passed_the_guard() -> None:
    args = InboxArgs([word(0), word(1), word(2)])
    used = args.at(100.0)
    assert used == [word(0), word(1), word(2)]
    args.learn(used, [YES, None, [1, YES[:16], 0, b""]])
    assert args.at(100.1) == [vouching(0), word(1), word(2)]
    args.learn(args.at(100.1), [None, YES, YES])
    assert args.at(100.2) == [vouching(0), vouching(1), vouching(2)]


@pytest.mark.parametrize("answer", [None, 1, [0, 5, b"holder", 7], [-4, 5, 7], [-1, 5], OSError()])
def test_nothing_but_the_usual_yes_says_that_the_guard_has_let_it_pass(answer: Any) -> None:
    args = InboxArgs([word(0)])
    args.learn(args.at(100.0), [answer])
    assert args.at(100.1) == [word(0)]


def test_after_a_while_the_guard_is_asked_again_and_a_yes_to_a_vouching_request_does_not_count() -> None:
    args = InboxArgs([word(0)])
    args.learn(args.at(100.0), [YES])
    used = args.at(100.1)
    assert used == [vouching(0)]
    later = 100.0 + VOUCHED_SECONDS
    assert args.at(later) == [word(0)]
    args.learn(used, [YES])
    assert args.at(later) == [word(0)]
    args.learn(args.at(later), [YES])
    assert args.at(later + 0.1) == [vouching(0)]


def test_a_vote_by_a_connection_of_before_says_nothing_about_the_next() -> None:
    before, after = InboxArgs([word(0)]), InboxArgs([word(1)])
    used = before.at(100.0)
    after.at(100.0)
    after.learn(used, [YES])
    assert after.at(100.1) == [word(1)]


def test_without_a_guard_there_is_nothing_to_vouch_for() -> None:
    args = InboxArgs([word(0, run=b"")])
    args.learn(args.at(100.0), [YES])
    assert args.at(100.1) == [word(0, run=b"")]


# The time


@pytest.fixture
def client() -> Client:
    return Client("ht", clock=lambda: 0.0)


def test_the_first_reply_says_how_far_ahead_a_clock_is(client: Client) -> None:
    client.learn_usual(3.0, 0.0)
    assert client.lead == 3.0


def test_a_reply_that_took_less_time_on_its_way_is_believed_at_once(client: Client) -> None:
    client.learn_usual(3.0, 0.0)
    client.learn_usual(2.9, 0.0)
    assert client.lead == 2.9


def test_one_that_took_more_is_believed_little_by_little(client: Client) -> None:
    client.learn_usual(3.0, 0.0)
    client.learn_usual(3.16, 0.0)
    assert client.lead == pytest.approx(3.01)
    for _ in range(200):
        client.learn_usual(3.16, 0.0)
    assert client.lead == pytest.approx(3.16)


def test_no_reply_takes_that_long_so_that_the_clock_was_set(client: Client) -> None:
    client.learn_usual(3.0, 0.0)
    client.learn_usual(3.0 + MUCH_AHEAD, 0.0)
    assert client.lead == pytest.approx(3.0 + MUCH_AHEAD / 16)
    client.learn_usual(10.0, 0.0)
    assert client.lead == 10.0
