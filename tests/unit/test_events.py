"""The event stream and the thread for callbacks."""

from __future__ import annotations

import dataclasses
import json
import logging
import queue
import threading
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import Locks
from holdtight import events as module
from holdtight.base import callbacks
from holdtight.base.callbacks import get_logger, tell
from holdtight.base.values import Kind, LossReason
from holdtight.events import (
    Acquired,
    DeadlockFound,
    Degraded,
    Detached,
    Downgraded,
    Event,
    Events,
    Failed,
    FailedOver,
    HeldLong,
    KeeperLate,
    Lost,
    NodeDown,
    NodeUp,
    PreviousExpired,
    Queued,
    RefreshFailed,
    Released,
    ReleaseFailed,
    RenewalFailed,
    Renewed,
    TimedOut,
    Waited,
)

logger = get_logger()

ACQUIRED = Acquired("orders", "me", 7, 0.1)
LOST = Lost("orders", "me", 7, LossReason.TAKEN, 12.34)
EVENTS = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Event)]


@pytest.fixture
def heard() -> Iterator[list[logging.LogRecord]]:
    """All log records of holdtight, at any level."""
    records: list[logging.LogRecord] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    collect, level = Collect(), logger.level
    logger.addHandler(collect)
    logger.setLevel(logging.DEBUG)
    yield records
    logger.removeHandler(collect)
    logger.setLevel(level)


def callback_thread_is_idle(within: float = 10) -> None:
    """Waits until all earlier callbacks have run."""
    done = threading.Event()
    tell(done.set)
    assert done.wait(within), "the callback thread does not run"


# Subscribers.


def test_a_subscriber_hears_every_event_in_the_thread_that_emits_it() -> None:
    events, seen = Events(), list[tuple[Event, int]]()
    events.subscribe(lambda event: seen.append((event, threading.get_ident())))
    events.emit(ACQUIRED)
    events.emit(LOST)
    assert seen == [(ACQUIRED, threading.get_ident()), (LOST, threading.get_ident())]


def test_subscribers_are_called_in_the_order_of_subscription_until_they_end_it() -> None:
    events, seen = Events(), list[str]()
    stop = events.subscribe(lambda event: seen.append("first"))
    events.subscribe(lambda event: seen.append("second"))
    events.emit(ACQUIRED)
    stop()
    events.emit(ACQUIRED)
    assert seen == ["first", "second", "second"]


def test_the_same_function_twice_is_two_subscriptions() -> None:
    events, seen = Events(), list[Event]()
    first = events.subscribe(seen.append)
    second = events.subscribe(seen.append)
    events.emit(ACQUIRED)
    assert len(seen) == 2
    first()
    first()  # a second end changes nothing
    events.emit(ACQUIRED)
    assert len(seen) == 3
    second()
    events.emit(ACQUIRED)
    assert len(seen) == 3


def test_an_error_in_a_subscriber_is_logged_and_the_others_are_still_called(
    heard: list[logging.LogRecord],
) -> None:
    events, seen = Events(), list[Event]()

    def fail(event: Event) -> None:
        raise ValueError("a subscriber's own fault")

    events.subscribe(fail)
    events.subscribe(seen.append)
    events.emit(ACQUIRED)
    assert seen == [ACQUIRED]
    failure = next(record for record in heard if record.levelno == logging.ERROR)
    assert failure.exc_info is not None
    assert "a subscriber's own fault" in str(failure.exc_info[1])


def test_a_subscriber_may_unsubscribe_itself_and_others_while_it_is_called() -> None:
    events, seen = Events(), list[str]()
    stops = list[Callable[[], None]]()

    def once(event: Event) -> None:
        seen.append("once")
        for stop in stops:
            stop()

    stops += [events.subscribe(once), events.subscribe(lambda event: seen.append("other"))]
    events.emit(ACQUIRED)
    events.emit(ACQUIRED)
    assert seen == ["once", "other"]


def test_what_cannot_be_called_cannot_subscribe() -> None:
    with pytest.raises(TypeError, match="subscriber must be callable"):
        Events().subscribe(5)  # type: ignore[arg-type]


def test_events_are_wanted_while_a_subscriber_listens(heard: list[logging.LogRecord]) -> None:
    events, wanted = Events(), list[bool]()
    logger.setLevel(logging.INFO)
    wanted.append(events.wanted)
    stop = events.subscribe(print)
    wanted.append(events.wanted)
    stop()
    wanted.append(events.wanted)
    logger.setLevel(logging.DEBUG)
    wanted.append(events.wanted)
    assert wanted == [False, True, False, True]


def test_what_is_emitted_later_comes_in_the_callback_thread_and_in_order() -> None:
    events, seen = Events(), queue.SimpleQueue[tuple[Event, str]]()
    events.subscribe(lambda event: seen.put((event, threading.current_thread().name)))
    events.emit_later(ACQUIRED)
    events.emit_later(LOST)
    assert [seen.get(timeout=10) for _ in range(2)] == [
        (ACQUIRED, "holdtight-callbacks"),
        (LOST, "holdtight-callbacks"),
    ]


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: str(cls.__name__))
def test_every_event_is_frozen_and_typed(cls: type[Event]) -> None:
    assert [field.name for field in dataclasses.fields(cls)][:2] == ["name", "owner"]
    assert typing.get_type_hints(cls)
    event = cls(*[None] * sum(not field.kw_only for field in dataclasses.fields(cls)))  # type: ignore[arg-type]
    assert (event.kind, event.template) == (None, None)
    assert cls.__name__ in module.__all__
    with pytest.raises(AttributeError):
        setattr(event, "name", "x")  # noqa: B010


def test_a_late_keeper_is_told_of_once_until_a_whole_ttl_has_passed_on_time() -> None:
    told = list[tuple[Any, ...]]()
    events, seen = Events(lambda *call: told.append(call)), list[Event]()
    events.subscribe(seen.append)
    for now in (10.0, 10.0, 14.0, 30.0, 59.9, 90.0):
        events.tell_late(5.0 + now / 10, now, 30.0)
    assert len(told) == 2, "it stayed late until 59.9"
    for function, *args in told:
        function(*args)
    assert seen == [KeeperLate("", "", 6.0), KeeperLate("", "", 14.0)]


# The log.


@pytest.mark.parametrize(
    ("event", "level", "line"),
    [
        (ACQUIRED, logging.DEBUG, "acquired orders after 0.1 s, fence 7, owner me"),
        (Waited("orders", "me", 0.0021, False), logging.DEBUG, "waited 2.1 ms for orders, acquired: no, owner me"),
        (TimedOut("orders", "me", 2.0, None), logging.DEBUG, "timed out on orders after 2 s, holder -, owner me"),
        (Renewed("orders", "me", 7, 29.93), logging.DEBUG, "renewed orders: 29.9 s left, fence 7, owner me"),
        (Released("orders", "me", 7, 1.0), logging.DEBUG, "released orders after 1 s, fence 7, owner me"),
        (Detached("orders", "me", 7, 1.0), logging.DEBUG, "detached orders after 1 s, fence 7, owner me"),
        (Downgraded("orders", "me", 7, 1.0), logging.DEBUG, "downgraded orders after 1 s, fence 7, owner me"),
        (LOST, logging.WARNING, "lost orders: TAKEN after 12.3 s, fence 7, owner me"),
        (HeldLong("orders", "me", 7, 86400.4), logging.WARNING, "held orders for 86400 s, and it is still renewed: "),
        (DeadlockFound("a", "me", 1.0, ("b", "a", "b")), logging.WARNING, "deadlock on a after 1 s: b > a > b, owner"),
        (Degraded("orders", "me", "open", "down"), logging.WARNING, "degraded orders: open, without the server: down"),
        (RenewalFailed("orders", "me", 7, 1.0, "a\n b"), logging.WARNING, "renewal of orders failed: a b; 1 s left, "),
        (ReleaseFailed("orders", "me", 0, "down"), logging.WARNING, "release of orders failed: down; it ends with "),
        (PreviousExpired("orders", "me", "you"), logging.WARNING, "previous holder of orders never released it: you"),
        (KeeperLate("", "", 0.711), logging.WARNING, "keeper late by 0.711 s: leases are renewed too late, "),
        (Queued("orders", "me", 3, "you"), logging.DEBUG, "queued for orders at position 3, holder you, owner me"),
        (
            Failed("orders", "me", "timeout", 2.0),
            logging.DEBUG,
            "failed to acquire orders after 2 s: timeout, owner me",
        ),
        (NodeDown("", "", "redis://a:1", "refused"), logging.WARNING, "node redis://a:1 is down: refused"),
        (NodeUp("", "", "redis://a:1"), logging.INFO, "node redis://a:1 is up again"),
        (
            RefreshFailed("report", "me", "builtins.OSError: no paper"),
            logging.WARNING,
            "refresh of report failed, its stale value stays: builtins.OSError: no paper, owner me",
        ),
        (FailedOver("", "", "redis://a:1", "redis://b:2"), logging.WARNING, "failover: redis://b:2 has replaced redis"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_event_is_one_log_line_with_its_name_in_extra(
    event: Event, level: int, line: str, heard: list[logging.LogRecord]
) -> None:
    Events().emit(event)
    (record,) = heard
    assert record.levelno == level
    assert record.name == "holdtight"
    assert record.getMessage().startswith(line)
    assert "\n" not in record.getMessage()
    assert vars(record)["lock_event"] == type(event).__name__


OWNER = "KIwfa0AQEEFctCj0SFu94hQ4uZKl6krI"
OF: Any = {"kind": Kind.SHARED, "template": "ord*"}
WHOSE = {"lock_name": "orders", "lock_kind": "shared", "lock_owner": "KIwfa0AQEEF"}


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (Acquired("orders", OWNER, 7, 0.5, **OF), WHOSE | {"lock_fence": 7, "lock_waited": 0.5}),
        (Waited("orders", OWNER, 0.5, True, **OF), WHOSE | {"lock_waited": 0.5}),
        (Failed("orders", "", "deadlock", 0.0, kind=Kind.MULTI), {"lock_reason": "deadlock", "lock_kind": "multi"}),
        (
            Lost("orders", OWNER, 7, LossReason.TAKEN, 1.5, **OF),
            WHOSE | {"lock_fence": 7, "lock_reason": "taken", "lock_held": 1.5},
        ),
        (ReleaseFailed("orders", OWNER, 7, "down", **OF), WHOSE | {"lock_fence": 7, "lock_reason": "down"}),
        (NodeDown("", "", "redis://a:1", "refused"), {"lock_node": "redis://a:1", "lock_reason": "refused"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_log_record_has_flat_fields_that_go_to_json(
    event: Event, fields: dict[str, object], heard: list[logging.LogRecord]
) -> None:
    Events().emit(event)
    (record,) = heard
    extra = {word: value for word, value in vars(record).items() if word not in vars(logging.makeLogRecord({}))}
    del extra["message"]
    more = {"lock_name": "orders", "lock_waited": 0.0} if isinstance(event, Failed) else {}
    assert json.loads(json.dumps(extra)) == {"lock_event": type(event).__name__, **fields, **more}


@pytest.mark.parametrize("cls", [cls for cls in EVENTS if cls is not Event], ids=lambda cls: str(cls.__name__))
def test_every_event_has_a_line_of_its_own_and_goes_to_json(cls: type[Event], heard: list[logging.LogRecord]) -> None:
    values: dict[str, Any] = {"str": "x", "int": 7, "float": float("inf"), "bool": True, "LossReason": LossReason.TAKEN}
    values["kind"] = Kind.EXCLUSIVE
    hints = typing.get_type_hints(cls)
    given = {
        word: values.get(word, values.get(getattr(hint, "__name__", ""), ("a", "b"))) for word, hint in hints.items()
    }
    event = cls(**given)
    Events().emit(event)
    (record,) = heard
    assert not record.getMessage().startswith(cls.__name__), "it has no line in base/showing.py"
    found = json.loads(json.dumps(event.as_dict(), allow_nan=False))
    assert found["event"] == cls.__name__
    assert found.keys() == {"event", *hints}


# The callback thread.


def test_callbacks_run_one_after_another_in_the_order_in_which_they_were_told() -> None:
    seen: list[int] = []
    for number in range(1000):
        tell(seen.append, number)
    callback_thread_is_idle()
    assert seen == list(range(1000))


def test_an_error_in_a_callback_is_logged_and_the_next_is_still_called(
    heard: list[logging.LogRecord],
) -> None:
    def fail() -> None:
        raise ValueError("a callback's own fault")

    tell(fail)
    callback_thread_is_idle()
    assert any(record.exc_info and "own fault" in str(record.exc_info[1]) for record in heard)


def test_a_thread_that_queues_callbacks_is_never_held_up_by_one_that_blocks() -> None:
    blocked, let_go, seen = threading.Event(), threading.Event(), list[int]()

    def block() -> None:
        blocked.set()
        let_go.wait(60)

    tell(block)
    assert blocked.wait(10)
    for number in range(100):
        tell(seen.append, number)
    assert seen == [], "told, and not waited for"
    let_go.set()
    callback_thread_is_idle()
    assert len(seen) == 100


def test_what_was_told_is_let_go_of_once_it_is_done() -> None:
    import weakref

    class Thing:
        def act(self) -> None: ...

    thing = Thing()
    gone = weakref.ref(thing)
    tell(thing.act)
    callback_thread_is_idle()
    del thing
    assert gone() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_exits_does_not_end_the_delivery_of_later_ones() -> None:
    own = callbacks._CallbackThread()
    done = threading.Event()
    own.tell(_exit)
    own.tell(done.set)
    assert done.wait(2)


def test_a_callback_thread_that_could_not_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    own = callbacks._CallbackThread()
    done = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_threads_left)
        own.tell(done.set)
    own.tell(int)
    assert done.wait(2)


def _exit() -> None:
    raise SystemExit(1)


def _no_threads_left(self: Any) -> None:
    raise RuntimeError("can't start new thread")


# What nobody hears of.


def test_several_locks_at_once_make_no_events_while_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Event] = []

    def make(*args: Any, **fields: Any) -> Event:
        made.append(Acquired(*args, **fields))
        return made[-1]

    monkeypatch.setattr(module, "Acquired", make)
    with Locks("memory://of-events") as locks:
        with locks.multi("a", "b"):
            pass
        assert made == []
        locks.events.subscribe(lambda event: None)
        with locks.multi("a", "b"):
            pass
        assert len(made) == 2
