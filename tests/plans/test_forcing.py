"""The plan behind force_release: what it asks, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdtight.base.operations import AuditRecord, ForcedRelease
from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import Holder, Kind, LockInfo, Owner, owner_text
from holdtight.core.force import Order, force
from holdtight.core.inspect import glance
from tests.plans.scripted import HOLDER, SENT, Clock, Lock, Named, Run

HELD = LockInfo("orders", Kind.EXCLUSIVE, holders=(Holder(owner_text(HOLDER), fence=7, expires_in=3.0),), holding=1)
DONE = ForcedRelease(5.0, 8, None, (HOLDER,), False)
TOLD = DONE._replace(about=({"host": "a", "pid": 1, "waits_for": "desk"},))
REFUSED = ServerSaid("NOPERM No permissions to access a key")


class Forces:
    def force_step(self, name: str, holders: Sequence[tuple[Owner, Holder]], **details: Any) -> Step:
        return Named("force", b"", holders=holders, **details)

    def audit_step(self, limit: int | None) -> Step:
        raise NotImplementedError


def forcing() -> Run[AuditRecord | None]:
    about: dict[str, Any] = {"id": "0" * 32, "action": "force_release", "name": "orders", "by": "me", "reason": "why"}
    about |= {"host": "here", "pid": 1}
    clock, lock = Clock(), Lock()
    return Run(force(Forces(), lock, lambda most: glance(lock, most), Order(about, None), clock, lock), clock)


def test_it_asks_twice_and_the_second_reply_says_whose_the_holders_are() -> None:
    run = forcing()
    run.asks("inspect")
    run.answer(HELD)
    assert run.asks("force").details["reading"] is True
    record = run.answer(TOLD).result
    assert record is not None
    assert record.holders == (HELD.holders[0]._replace(host="a", pid=1, waits_for="desk"),)


def test_nothing_held_takes_one_request() -> None:
    run = forcing().answer(LockInfo("orders", fence=5))
    assert (run.done, run.result) == (True, None)


def test_without_the_right_to_the_records_it_reads_what_it_may_and_asks_again() -> None:
    run = forcing().answer(HELD).answer(REFUSED)
    first = run.all("force")[0].details["about"]
    assert run.asks("records").details == {"owners": [HOLDER], "holding": 1}
    run.answer(REFUSED)
    assert run.asks("records").details == {"owners": [HOLDER], "holding": 0}
    step = run.answer([{"host": "a", "pid": 1}]).asks("force")
    ((_, holder),) = step.details["holders"]
    assert (step.details["reading"], step.details["about"], holder.pid) == (False, first, 1)
    record = run.answer(DONE).result
    assert record is not None
    assert [(each.host, each.pid) for each in record.holders] == [("a", 1)]


def test_a_right_that_is_missing_for_the_deed_itself_is_an_error() -> None:
    run = forcing().answer(HELD).answer(REFUSED).answer([{}]).answer(REFUSED)
    assert run.error is REFUSED


def test_a_lost_reply_is_asked_for_with_the_same_id() -> None:
    run = forcing().answer(HELD).answer(SENT)
    one, two = run.all("force")
    assert one.details["about"] == two.details["about"]
    assert run.answer(TOLD).result is not None
