"""The plan behind inspect."""

from __future__ import annotations

import pytest

from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.values import Holder, Kind, LockInfo, Waiter, owner_text
from holdtight.core.inspect import look
from tests.plans.scripted import HOLDER, LOADING, OWNER, SENT, STALE, Clock, Lock, Run

FIRST, SECOND = b"1" * 24, b"2" * 24
FREE = LockInfo("orders", fence=5)
HELD = LockInfo(
    "orders",
    Kind.EXCLUSIVE,
    holders=(Holder(owner_text(HOLDER), fence=7, label="billing", expires_in=3.0),),
    waiters=(Waiter(owner_text(FIRST), label="a"), Waiter(owner_text(SECOND))),
    waiting=2,
    fence=7,
)


def looking(entered: dict[str, int] | None = None) -> Run[LockInfo]:
    return Run(look(Lock(), Lock(), entered or {}), Clock())


def test_a_free_name_takes_one_step() -> None:
    run = looking()
    run.asks("inspect")
    assert run.answer(FREE).result == FREE
    assert run.result is not None
    assert not run.result.locked


def test_host_and_pid_come_from_the_records_of_the_clients_in_line_order() -> None:
    run = looking().answer(HELD)
    assert run.asks("records").details["owners"] == [HOLDER, FIRST, SECOND]
    info = run.answer([{"host": "a", "pid": 1}, {"host": "b", "pid": 2}, {"host": "c", "pid": 3}]).result
    assert info is not None
    assert [(each.host, each.pid) for each in info.holders] == [("a", 1)]
    assert [(each.host, each.pid, each.label) for each in info.waiters] == [("b", 2, "a"), ("c", 3, None)]
    assert info.holders[0].fence == 7
    assert info.holders[0].label == "billing"
    assert info.waiting == 2
    assert info.locked


def test_a_client_without_a_record_is_shown_without_host_and_pid() -> None:
    info = looking().answer(HELD).answer([{}, {}, {"host": "c", "pid": 3}]).result
    assert info is not None
    assert info.holders[0].host is None
    assert info.holders[0].pid is None
    assert [each.host for each in info.waiters] == [None, "c"]


def test_our_own_grants_show_how_often_they_are_entered_and_others_do_not() -> None:
    records: list[dict[str, object]] = [{}, {}, {}]
    info = looking({owner_text(HOLDER): 3, owner_text(FIRST): 9}).answer(HELD).answer(records).result
    assert info is not None
    assert info.holders[0].entered == 3
    other = looking({owner_text(OWNER): 3}).answer(HELD).answer(records).result
    assert other is not None
    assert other.holders[0].entered is None


def test_what_a_holder_waits_for_is_read_with_the_records() -> None:
    run = looking().answer(HELD)
    assert run.asks("records").details["holding"] == 1
    info = run.answer([{"waits_for": "desk"}, {}, {}]).result
    assert info is not None
    assert info.holders[0].waits_for == "desk"


def test_a_user_without_the_right_to_some_records_sees_the_others() -> None:
    refused = ServerSaid("NOPERM this user has no permissions to access one of the keys")
    run = looking().answer(HELD).answer(refused)
    assert run.asks("records").details["holding"] == 0
    info = run.answer([{"host": "a"}, {}, {}]).result
    assert info is not None
    assert info.holders[0].host == "a"
    bare = looking().answer(HELD).answer(refused).answer(refused).result
    assert bare is not None
    assert [bare.holders[0].host, bare.waiters[0].host, bare.waiting] == [None, None, 2]


def test_only_waiters_and_no_holder() -> None:
    line = LockInfo("orders", Kind.EXCLUSIVE, waiters=HELD.waiters, waiting=2)
    info = looking().answer(line).answer([{"host": "b"}, {"host": "c"}]).result
    assert info is not None
    assert info.holders == ()
    assert [each.host for each in info.waiters] == ["b", "c"]


def test_a_stale_link_gets_one_more_look() -> None:
    run = looking().answer(STALE)
    run.asks("inspect")
    assert run.answer(FREE).result == FREE
    assert isinstance(looking().answer(STALE).answer(STALE).error, LinkDown)


@pytest.mark.parametrize("failure", [SENT, LOADING], ids=repr)
def test_any_other_failure_goes_through(failure: Exception) -> None:
    assert looking().answer(failure).error is failure
    assert looking().answer(HELD).answer(failure).error is failure
