"""The meaning of the answers to a renewal, and which ttl to ask for next."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.base.clock import Drift
from holdtight.base.values import Claim, LossReason, Verdict
from holdtight.core.renewal import next_ttl
from holdtight.stores.client import Client
from holdtight.stores.redis.store import Store

CLIENT = Client("ht", lambda: 1.0)
PREPARED = Store(CLIENT, server="here", drift=Drift(), max_waiters=1).prepare(Claim("name", 30))


def judge(reply: Any) -> Verdict | LossReason:
    return PREPARED.read_renewal(reply, 0.0)


def test_a_late_one_says_what_time_the_server_has() -> None:
    """It read its clock at some time between the request at 0 and the reply at 1: the earlier one is taken as true."""
    judge([-1, 5000])
    assert CLIENT.server_time(1.0) == 5.0


def test_one_is_renewed() -> None:
    assert judge(1) is Verdict.RENEWED


def test_another_owner_is_taken_and_a_key_that_is_gone_is_expired() -> None:
    assert judge([0, b"h" * 24]) is LossReason.TAKEN
    assert judge([0, b""]) is LossReason.EXPIRED


@pytest.mark.parametrize(
    "reply",
    [
        hiredis.ReplyError("LOADING"),
        hiredis.ReplyError("OOM command not allowed"),
        [-1, 1234],
        None,
        True,
        1.0,
        b"1",
        "1",
        0,
        2,
        [],
        [0],
        [1],
        [0, b"", b""],
        b"OK",
    ],
    ids=repr,
)
def test_anything_else_is_unknown_neither_success_nor_loss(reply: Any) -> None:
    assert judge(reply) is Verdict.UNKNOWN


def test_without_max_hold_the_ttl_is_asked_for_unchanged() -> None:
    assert next_ttl(30.0, 1000.0, None, Drift()) == 30.0


def test_max_hold_shortens_the_last_renewal_so_that_the_server_lets_go_in_time() -> None:
    assert next_ttl(30.0, 1000.0, 1060.0, Drift()) == 30.0
    last = next_ttl(30.0, 1000.0, 1010.0, Drift())
    assert 10.0 < last < 10.5
    assert Drift().valid(last) == pytest.approx(10.0)


def test_past_max_hold_there_is_still_a_ttl_that_a_server_accepts() -> None:
    assert next_ttl(30.0, 1000.0, 999.0, Drift()) == 0.001


@given(ttl=st.floats(0.1, 3600), left=st.floats(0.05, 7200), rate=st.floats(0, 0.2), fixed=st.floats(0, 0.02))
def test_what_is_asked_for_always_covers_what_is_left_of_the_hold(
    ttl: float, left: float, rate: float, fixed: float
) -> None:
    drift = Drift(rate, fixed)
    asked = next_ttl(ttl, 0.0, left, drift)
    assert asked <= ttl
    if asked < ttl:
        assert drift.valid(asked) >= left * (1 - 1e-9)
