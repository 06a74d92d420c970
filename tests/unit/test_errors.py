"""Every error of the public table: code, bases, message, and that it pickles whole."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import holdtight
from holdtight import errors
from holdtight.base import refusals
from holdtight.base.jobs import Skipped
from holdtight.base.values import Holder, LossReason, Member
from holdtight.errors import (
    ClockDrift,
    DeadlockDetected,
    FlightFailed,
    JobSkipped,
    LeaseLost,
    LockError,
    LockTimeout,
    NotOwner,
    NotPermitted,
    NotSupported,
    OutOfMemory,
    QueueFull,
    QuorumNotReached,
    ScriptError,
    StaleFence,
    Unavailable,
    WrongTransaction,
    quotable,
)

HOLDER = Holder("abcdefghijklmnop", fence=7, host="worker-7", pid=42, label="billing", expires_in=3.5)
MEMBERS = (
    Member("stock", "orders", "o1", "w1", "web-3", 811, "thread MainThread", "checkout"),
    Member("orders", "stock", "abcdefghijklmnop", "w2"),
)

TABLE: list[tuple[type[LockError], str, tuple[type[BaseException], ...]]] = [
    (LockError, "", (Exception,)),
    (LockTimeout, "LOCK_TIMEOUT", (LockError, TimeoutError)),
    (LeaseLost, "WATCHDOG_RENEWAL_FAILED", (LockError,)),
    (NotOwner, "UNLOCK_FAILED", (LeaseLost,)),
    (Unavailable, "CONNECTION_LOST", (LockError, ConnectionError)),
    (NotPermitted, "NOT_PERMITTED", (LockError, PermissionError)),
    (QuorumNotReached, "QUORUM_NOT_REACHED", (Unavailable,)),
    (ClockDrift, "CLOCK_DRIFT", (LockError,)),
    (OutOfMemory, "OUT_OF_MEMORY", (LockError,)),
    (ScriptError, "SCRIPT_ERROR", (LockError,)),
    (DeadlockDetected, "DEADLOCK", (LockError,)),
    (QueueFull, "QUEUE_FULL", (LockError,)),
    (FlightFailed, "FLIGHT_FAILED", (LockError,)),
    (JobSkipped, "JOB_SKIPPED", (LockError,)),
    (StaleFence, "CONCURRENT_MODIFICATION", (LockError,)),
    (NotSupported, "NOT_SUPPORTED", (LockError,)),
    (WrongTransaction, "WRONG_TRANSACTION", (LockError,)),
]


@pytest.mark.parametrize(("cls", "code", "bases"), TABLE, ids=lambda value: getattr(value, "__name__", ""))
def test_code_and_bases_are_those_of_the_table(
    cls: type[LockError], code: str, bases: tuple[type[BaseException], ...]
) -> None:
    assert cls.code == code
    assert cls.__bases__ == bases
    assert cls("x").code == code
    assert getattr(holdtight, cls.__name__) is cls


def test_the_table_is_complete_and_codes_are_unique() -> None:
    assert {cls.__name__ for cls, _, _ in TABLE} == set(errors.__all__)
    assert len({code for _, code, _ in TABLE}) == len(TABLE)


MADE: dict[str, Callable[[], LockError]] = {
    "timeout": lambda: LockTimeout.after("orders", 2.5, HOLDER, 3),
    "timeout of nobody": lambda: LockTimeout.after("orders", 0.0, None, 0),
    "lost": lambda: LeaseLost.because("orders", LossReason.TAKEN, 7),
    "lost, why unknown": lambda: LeaseLost.because("orders", None),
    "not owner": lambda: NotOwner.on("release", "orders", LossReason.EXPIRED),
    "not owner, why unknown": lambda: NotOwner.on("release", "orders", None),
    "unavailable": lambda: Unavailable.because("orders", "redis://a", "connection refused", 2.0),
    "too few acks": lambda: Unavailable.unacknowledged("orders", "redis://a", "1 of 2 replicas acknowledged", 2.0),
    "quorum": lambda: QuorumNotReached("'orders': 1 of 3", name="orders", nodes={"a": "yes", "b": "no"}),
    "drift": lambda: ClockDrift.on("orders", 1.0, 1.2),
    "memory": lambda: OutOfMemory.because("orders", "redis://a", "OOM command not allowed"),
    "foreign": lambda: ScriptError.foreign("orders", "ht:{orders}", "WRONGTYPE"),
    "script": lambda: ScriptError.because("orders", "redis://a", "ERR"),
    "deadlock": lambda: DeadlockDetected.with_self("orders", "thread"),
    "deadlock of two": lambda: DeadlockDetected.among(MEMBERS, HOLDER, 1.25),
    "skipped, running": lambda: JobSkipped.of(Skipped("orders", "running", HOLDER)),
    "skipped, done": lambda: JobSkipped.of(Skipped("orders", "done", None, 1.0, 90.0)),
    "flight": lambda: FlightFailed.because("orders", "builtins.OSError: no paper"),
    "stale": lambda: StaleFence.below("orders", 7, 9),
    "other kind": lambda: ScriptError.of_other_kind("orders", "a semaphore", "an exclusive lock"),
    "quorum of nodes": lambda: QuorumNotReached.among("orders", {"a": "yes", "b": "restart guard"}, 2, 0.5),
    "no fence": lambda: refusals.no_fence("orders"),
    "upgrade": lambda: refusals.upgrade("orders", "task"),
    "autocommit": lambda: refusals.autocommit("orders"),
    "open transaction": lambda: refusals.transaction_open("orders"),
    "old snapshot": lambda: refusals.old_snapshot("orders"),
    "changed before": lambda: refusals.changed_before_claim("orders", "Sku"),
    "ended inside": lambda: refusals.ended_inside("orders"),
    "failed inside": lambda: refusals.failed_inside("orders"),
    "not claimed": lambda: refusals.not_claimed("orders"),
    "shared claim": lambda: refusals.claim_shared("orders", "a semaphore"),
    "queue": lambda: QueueFull.at("orders", 100, 100),
    "not supported": lambda: NotSupported("cannot detach 'orders'", name="orders"),
    "permission": lambda: NotPermitted.because("redis://a", "NOPERM no permissions", "orders"),
}


@pytest.mark.parametrize("what", MADE)
def test_an_error_carries_the_name_of_its_lock(what: str) -> None:
    error = MADE[what]()
    assert error.name == "orders"
    assert str(error)
    assert "None" not in str(error)


@pytest.mark.parametrize("what", [what for what in MADE if what != "permission"])
def test_the_message_names_the_lock(what: str) -> None:
    assert "'orders'" in str(MADE[what]())


def test_the_message_of_a_refusal_names_the_lock() -> None:
    assert "'orders'" in str(MADE["permission"]())


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_pickles_with_all_it_carries(what: str, protocol: int) -> None:
    error = MADE[what]()
    error.add_note("and the body failed too")
    came = pickle.loads(pickle.dumps(error, protocol))
    assert type(came) is type(error)
    assert came.args == error.args
    assert str(came) == str(error)
    assert vars(came) == vars(error)
    assert came.__notes__ == ["and the body failed too"]
    assert came.code == error.code


@pytest.mark.parametrize("what", MADE)
def test_a_message_says_where_to_read_more_once_and_last(what: str) -> None:
    error = MADE[what]()
    assert error.code
    assert str(error).endswith(f" See: python -m holdtight explain {error.code}")
    assert str(error).count("holdtight explain") == 1
    assert "holdtight explain" not in error.message
    assert error.args == (error.message,)


def test_a_text_that_does_not_end_as_a_sentence_is_ended() -> None:
    ends = {
        "it broke": "it broke. See: ",
        "it broke.": "it broke. See: ",
        "it broke!\n": "it broke! See: ",
        "its log says:\n  line\n": "its log says:\n  line\nSee: ",
    }
    for text, begins in ends.items():
        assert str(Unavailable(text)) == begins + "python -m holdtight explain CONNECTION_LOST"


def test_an_error_that_quotes_another_leads_to_its_own_place_only() -> None:
    inner = NotPermitted.because("embedded://", "the folder cannot be trusted")
    outer = Unavailable.because("orders", "embedded://", quotable(inner))
    assert str(outer).count("holdtight explain") == 1
    assert inner.message.removesuffix(".") in str(outer)
    assert quotable(OSError("no route")) == "no route"


def test_the_root_has_no_code_and_leads_nowhere() -> None:
    assert str(LockError("mine")) == "mine"


def test_a_subclass_of_a_users_leads_where_its_base_does() -> None:
    assert str(Special(5, 6)).endswith(" explain LOCK_TIMEOUT")


def test_a_group_and_a_traceback_show_the_place() -> None:
    group = pickle.loads(pickle.dumps(ExceptionGroup("two", [MADE["timeout"](), MADE["lost"]()])))
    assert group.subgroup(LockTimeout) is not None
    shown = "".join(traceback.format_exception(group))
    assert "See: python -m holdtight explain LOCK_TIMEOUT\n" in shown
    assert "See: python -m holdtight explain WATCHDOG_RENEWAL_FAILED\n" in shown


def test_an_error_without_a_name_does_not_speak_of_a_lock_called_none() -> None:
    for error in (
        Unavailable.because(None, "redis://a", "silence"),
        QuorumNotReached.among(None, {"a": "yes"}, 2),
        OutOfMemory.because(None, "redis://a", "OOM"),
        ScriptError.foreign(None, "ht:{a}", "WRONGTYPE"),
        ScriptError.because(None, "redis://a", "ERR"),
        NotPermitted.because("redis://a", "NOPERM"),
    ):
        assert "None" not in str(error)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0 ms"), (0.000345, "0.34 ms"), (0.0099, "9.9 ms"), (0.25, "0.25 s"), (5.0, "5 s")]
)
def test_short_waits_are_told_in_milliseconds(seconds: float, shown: str) -> None:
    assert f"not acquired after {shown}:" in str(LockTimeout.after("orders", seconds, None, 0))


def test_a_lease_that_its_holder_released_is_no_overlap() -> None:
    text = str(NotOwner.on("rely on", "orders", None))
    assert "released" in text
    assert "overlapped" not in text


def test_a_resource_tells_both_fences() -> None:
    error = StaleFence.below("orders", 7, 9)
    assert error.name == "orders"
    assert "fence 7 is stale, 9 has been" in str(error)


def test_what_errors_carry_survives_the_way_to_another_process() -> None:
    timeout = pickle.loads(pickle.dumps(MADE["timeout"]()))
    assert (timeout.holder, timeout.waited) == (HOLDER, 2.5)
    assert pickle.loads(pickle.dumps(MADE["lost"]())).reason is LossReason.TAKEN
    assert pickle.loads(pickle.dumps(MADE["quorum"]())).nodes == {"a": "yes", "b": "no"}
    assert pickle.loads(pickle.dumps(MADE["deadlock"]())).cycle == ("orders", "orders")
    assert pickle.loads(pickle.dumps(MADE["unavailable"]())).nodes == {"redis://a": "connection refused"}


@pytest.mark.parametrize("what", MADE)
def test_an_error_can_be_copied(what: str) -> None:
    error = MADE[what]()
    assert vars(copy.copy(error)) == vars(copy.deepcopy(error)) == vars(error)


def test_a_subclass_with_another_signature_still_pickles() -> None:
    came = pickle.loads(pickle.dumps(Special(5, 6)))
    assert type(came) is Special
    assert came.both == (5, 6)
    assert came.message == "5 and 6"
    assert str(came) == "5 and 6. See: python -m holdtight explain LOCK_TIMEOUT"


class Special(LockTimeout):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}", name="orders")
        self.both = (one, other)


def test_a_timeout_says_who_holds_it_how_long_it_took_and_what_to_do() -> None:
    text = str(LockTimeout.after("orders", 2.5, HOLDER, 3))
    for word in ("2.5 s", "worker-7, pid 42", "billing", "2 ahead of us", "wait="):
        assert word in text


def test_the_first_in_line_has_nobody_ahead() -> None:
    assert "ahead" not in str(LockTimeout.after("orders", 2.5, HOLDER, 1))


@pytest.mark.parametrize("reason", LossReason)
def test_every_reason_has_a_text_that_loss_and_refusal_show(reason: LossReason) -> None:
    assert reason.text in str(LeaseLost.because("orders", reason, 7))
    assert reason.text in str(NotOwner.on("renew", "orders", reason))
    assert LeaseLost.because("orders", reason).reason is reason


def test_an_unavailable_server_is_named_with_the_cause_and_never_called_free() -> None:
    text = str(Unavailable.because("orders", "redis://a", "connection refused", 2.0))
    assert "redis://a" in text
    assert "connection refused" in text
    assert "not known" in text


def test_a_deadlock_tells_its_cycle_one_member_a_line() -> None:
    error = DeadlockDetected.among(MEMBERS, HOLDER, 1.25)
    assert (error.cycle, error.members, error.holder, error.waited) == (
        ("stock", "orders", "stock"),
        MEMBERS,
        HOLDER,
        1.25,
    )
    head, one, other, advice = str(error).splitlines()
    assert "'orders' would never be acquired (waited 1.25 s)" in head
    assert one == "  web-3, pid 811, thread MainThread (checkout) holds 'stock' and waits for 'orders'  <- this one"
    assert other == "  owner abcdefghijk... holds 'orders' and waits for 'stock'"
    for word in ("same order", "multi()", "reentrant=True", "try again"):
        assert word in advice
    assert "It waits for itself" in str(DeadlockDetected.among(MEMBERS[:1], HOLDER, 1.25))


def test_nodes_are_a_copy_of_what_was_given() -> None:
    given = {"a": "yes"}
    error = LockError("x", nodes=given)
    given["b"] = "no"
    assert error.nodes == {"a": "yes"}


def test_texts_of_not_supported_are_in_one_file() -> None:
    source = Path(errors.__file__).parent
    written = {
        str(each.relative_to(source)) for each in source.rglob("*.py") if "NotSupported(" in each.read_text("utf-8")
    }
    assert written == {"errors.py", "base/refusals.py"}  # errors.py defines the class
