"""What objects print, and what they give to programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdtight import (
    DeadlockDetected,
    Holder,
    Kind,
    LeaseLost,
    LockError,
    LockInfo,
    Locks,
    LockTimeout,
    LossReason,
    NotOwner,
    QuorumNotReached,
    StaleFence,
    Waiter,
)
from holdtight.base.values import Member

HOLDER = Holder("AAAA", 1794, "web-3", 811, "checkout", 1.5, 29.94, 1)
WAITERS = (Waiter("BBBB", "web-11", 7, None, 2.0), Waiter("CCCC"))


def test_an_inspected_lock_prints_as_a_table() -> None:
    info = LockInfo("order:42", Kind.EXCLUSIVE, (HOLDER,), WAITERS, 2, 1794)
    assert str(info).splitlines() == [
        "'order:42': held, 2 waiting",
        "            host    pid  label     fence  left    owner",
        "  holder    web-3   811  checkout  1794   29.9 s  AAAA",
        "  waiter 1  web-11  7    -         -      -       BBBB",
        "  waiter 2  -       -    -         -      -       CCCC",
    ]
    assert f"{info}" == str(info)
    assert repr(info).startswith("LockInfo(name='order:42', kind=<Kind.EXCLUSIVE: 'exclusive'>, holders=(Holder(owner=")
    assert eval(repr(info).replace("<Kind.EXCLUSIVE: 'exclusive'>", "Kind.EXCLUSIVE")) == info


def test_what_a_holder_waits_for_has_a_column_of_its_own() -> None:
    info = LockInfo("book", Kind.EXCLUSIVE, (Holder("AAAA", 1, waits_for="desk"),), (Waiter("BBBB"),), 1)
    lines = str(info).splitlines()
    assert "waits for" in lines[1]
    assert [line.split()[-2] for line in lines[2:]] == ["desk", "-"]


def test_readers_and_a_writer_are_told_apart() -> None:
    readers = (Holder("AAAA", 1, kind=Kind.SHARED), Holder("BBBB", 2, kind=Kind.SHARED))
    lines = str(LockInfo("book", Kind.SHARED, readers, (Waiter("CCCC"),), 1)).splitlines()
    assert lines[0] == "'book': held by 2 readers, 1 waiting"
    assert [line.split()[-7] for line in lines[2:]] == ["read", "read", "write"]


def test_permits_are_counted() -> None:
    holders = (Holder("AAAA", 1, kind=Kind.PERMITS, n=3), Holder("BBBB", 2, kind=Kind.PERMITS))
    lines = str(LockInfo("api", Kind.PERMITS, holders)).splitlines()
    assert lines[0] == "'api': 4 permits held"
    assert [line.split()[1] for line in lines[1:]] == ["host", "3", "1"]


def test_a_free_lock_is_one_line_and_a_long_line_is_cut_short() -> None:
    assert str(LockInfo("x")) == "'x': free"
    many = str(LockInfo("x", Kind.SHARED, (HOLDER,), holding=700)).splitlines()
    assert (many[0], many[-1]) == ("'x': held", "  and 699 more holders")
    assert str(LockInfo("x", waiters=(WAITERS[1],), waiting=700)).splitlines()[-1] == "  and 699 more waiting"


def test_the_nodes_of_a_quorum_are_shown() -> None:
    info = LockInfo("x", nodes={"a:1": "free", "b:2": "no answer"})
    assert str(info).splitlines()[1:] == ["  node a:1: free", "  node b:2: no answer"]


def test_a_table_is_ascii_whatever_the_names_are() -> None:
    holder = Holder("AAAA", 1, "höst", 1, "naïve ✓")
    info = LockInfo("größe", Kind.EXCLUSIVE, (holder,), nodes={"ß": "…"})
    assert str(info).isascii()
    assert "gr\\xf6\\xdfe" in str(info)


def test_what_inspect_returns_goes_to_json() -> None:
    info = LockInfo("order:42", Kind.EXCLUSIVE, (HOLDER,), WAITERS, 2, 1794, {"a:1": "held"})
    found = json.loads(json.dumps(info.as_dict()))
    assert (found["name"], found["kind"], found["waiting"], found["nodes"]) == (
        "order:42",
        "exclusive",
        2,
        {"a:1": "held"},
    )
    assert found["holders"] == [json.loads(json.dumps(HOLDER.as_dict()))]
    assert found["holders"][0] == {
        "owner": "AAAA",
        "fence": 1794,
        "host": "web-3",
        "pid": 811,
        "label": "checkout",
        "since": 1.5,
        "expires_in": 29.94,
        "entered": 1,
        "kind": "exclusive",
        "n": 1,
        "waits_for": None,
    }
    assert found["waiters"][1] == WAITERS[1].as_dict()
    assert json.loads(json.dumps(LockInfo("free").as_dict()))["kind"] is None


MEMBER = Member("a", "b", "A", "B", "web-3", 1, "thread x")
ERRORS: list[tuple[LockError, dict[str, Any]]] = [
    (LockTimeout.after("x", 1.5, HOLDER, 2), {"waited": 1.5, "holder": HOLDER.as_dict(), "code": "LOCK_TIMEOUT"}),
    (LeaseLost.because("x", LossReason.TAKEN, 7), {"reason": "taken", "error": "LeaseLost"}),
    (NotOwner.on("release", "x", None), {"reason": None, "code": "UNLOCK_FAILED"}),
    (QuorumNotReached.among("x", {"a": "no"}, 2, 0.5), {"nodes": {"a": "no"}, "waited": 0.5}),
    (
        DeadlockDetected.among((MEMBER,), HOLDER, 1.0),
        {"cycle": ["a", "b"], "members": [MEMBER.as_dict()], "name": "b"},
    ),
    (StaleFence.below("x", 1, 2), {"name": "x", "holder": None}),
    (LockError("told by hand"), {"message": "told by hand", "code": "", "name": None, "nodes": {}}),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_goes_to_json(error: LockError, expected: dict[str, Any]) -> None:
    error.add_note("a note is not a field")
    found = json.loads(json.dumps(error.as_dict()))
    assert expected.items() <= found.items()
    assert (found["error"], found["message"]) == (type(error).__name__, error.message)


# Leases.


def test_a_lease_says_what_it_is() -> None:
    left = r"29\.\d+ s left|30 s left"
    with Locks("memory://") as locks:
        with locks.lock("x") as lease:
            assert re.fullmatch(rf"<Lease 'x' exclusive fence={lease.fence} ({left})>", repr(lease))
        assert repr(lease) == f"<Lease 'x' exclusive fence={lease.fence} released>"
        with locks.rwlock("x").read() as lease:
            assert re.fullmatch(rf"<Lease 'x' read fence={lease.fence} ({left})>", repr(lease))
        with locks.rwlock("x").write() as lease:
            assert repr(lease).startswith(f"<Lease 'x' exclusive fence={lease.fence} ")
            reading = lease.downgrade()
            assert repr(lease).endswith(f" exclusive fence={lease.fence} downgraded>")
            assert repr(reading).startswith(f"<Lease 'x' read fence={reading.fence} ")
        for n, permits in ((1, "1 permit"), (2, "2 permits")):
            with locks.semaphore("s", permits=3).acquire(n) as lease:
                assert repr(lease).startswith(f"<Lease 's' {permits} fence={lease.fence} ")
        with locks.multi("x", "y") as lease:
            assert re.fullmatch(rf"<MultiLease 'x \+ y' 2 locks ({left})>", repr(lease))
        lease = locks.lock("x").acquire()
        text = lease.detach()
        assert repr(lease) == f"<Lease 'x' exclusive fence={lease.fence} detached>"
        lease = locks.adopt(text)
        lease.tenure.lose(LossReason.TAKEN)
        assert repr(lease) == f"<Lease 'x' exclusive fence={lease.fence} lost (taken)>"
        lease.forsake()


@pytest.mark.parametrize(("how", "left"), [("open", "until released"), ("local", r"\d+(\.\d+)? s left")])
def test_a_degraded_lease_shows_no_fence(how: Any, left: str) -> None:
    with Locks("redis://127.0.0.1:1", on_unavailable=how, connect_timeout=0.05) as locks:
        with locks.lock("x") as lease:
            assert re.fullmatch(rf"<Lease 'x' exclusive degraded {left}>", repr(lease))
        with locks.multi("x", "y") as lease:
            assert re.fullmatch(rf"<MultiLease 'x \+ y' 2 locks degraded {left}>", repr(lease))
