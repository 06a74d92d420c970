"""The keeper's connection to one server: batches, verdicts, silence, and independent servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import hiredis
import pytest

from holdtight.base.callbacks import tell
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.keeper.connection import UNDER_WAY
from tests.unit.keeping import Charge, Link, Place, Still, due, sent


def test_each_answer_goes_to_the_charge_that_asked(keeper: Still) -> None:
    place = Place()
    charges = [Charge(place, name=f"{number}") for number in range(3)]
    due(keeper, *charges)
    keeper.connected(place)
    keeper.hears(place, "a", "b")
    keeper.hears(place, "c")
    assert [charge.log[-1] for charge in charges] == ["answered a", "answered b", "answered c"]
    assert keeper.turn() == keeper.now + 2.5, "all are back on their lane, and the record is looked after"


def test_bells_on_the_keepers_link_are_nobodys(keeper: Still) -> None:
    place = Place()
    charge = Charge(place)
    due(keeper, charge)
    keeper.connected(place)
    keeper.hears(place, hiredis.PushNotification([b"message", b"inbox", b"g"]), 1)
    assert charge.log == ["request", "answered 1"]


ALARM = b"ht:alarm:Y2xpZW50LWlk"


def listening() -> Link:
    link = Link()
    link.inbox = b"inbox"
    return link


@pytest.mark.parametrize(
    "answer",
    [hiredis.PushNotification([b"subscribe", ALARM, 2]), hiredis.ReplyError("NOPERM no right to this channel")],
    ids=["allowed", "refused"],
)
def test_a_new_link_listens_to_the_alarm_first(keeper: Still, answer: Any) -> None:
    place = Place()
    place.opening = listening
    charge = Charge(place)
    due(keeper, charge)
    keeper.connected(place)
    assert sent(place) == [b"heed " + ALARM, b"x"]
    keeper.hears(place, answer, 1)
    assert charge.log == ["request", "answered 1"]


def test_an_alarm_renews_the_grant_that_it_names_at_once(keeper: Still) -> None:
    place = Place()
    place.opening = listening
    charges = [Charge(place, name=f"{number}") for number in range(3)]
    charges[1].owner = b"o" * 24  # type: ignore[attr-defined]
    due(keeper, *charges)
    keeper.connected(place)
    keeper.hears(place, hiredis.PushNotification([b"subscribe", ALARM, 2]), 1, 1, 1)
    before = len(sent(place))
    keeper.hears(place, hiredis.PushNotification([b"message", ALARM, b"k" + b"o" * 24]))
    keeper.turn()
    assert sent(place)[before:] == [b"1"]
    keeper.hears(place, 1)
    assert charges[1].log == ["request", "answered 1"] * 2


def test_what_is_asked_for_goes_ahead_of_what_is_due(keeper: Still) -> None:
    place = Place()
    due(keeper, Charge(place, name="due"))
    keeper.ask(Charge(place, name="asked"))
    keeper.connected(place)
    assert sent(place) == [b"asked", b"due"]


def test_a_charge_that_has_nothing_to_ask_is_overdue_and_the_others_are_asked(keeper: Still) -> None:
    place = Place()
    silent, other = Charge(place), Charge(place, name="other")
    silent.nothing_to_ask = True
    due(keeper, silent, other)
    keeper.connected(place)
    assert silent.log == ["request", "overdue"]
    assert sent(place) == [b"other"]


def test_a_charge_that_died_while_it_waited_is_not_sent(keeper: Still) -> None:
    place = Place()
    dead, other = Charge(place, name="dead"), Charge(place, name="other")
    due(keeper, dead, other)
    dead.alive = False
    keeper.connected(place)
    assert sent(place) == [b"other"]


def test_what_the_socket_does_not_take_at_once_goes_out_when_it_can_be_written_to(keeper: Still) -> None:
    place = Place()
    link = Link()
    link.takes = 3
    place.opening = lambda: link
    due(keeper, Charge(place, name="abcdef"))
    keeper.connected(place)
    assert sent(place) == [b"abc"]
    assert keeper.watched[link.fileno()] is True, "it wants to write"
    link.takes = 100
    keeper.hears(place)
    assert sent(place) == [b"abc", b"def"]
    assert keeper.watched[link.fileno()] is False


def test_a_script_that_the_server_forgot_is_sent_whole(keeper: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdtight.stores.redis.script.with_script_body", lambda request: b"whole " + request)
    place = Place()
    charge = Charge(place)
    due(keeper, charge)
    keeper.connected(place)
    keeper.hears(place, hiredis.ReplyError("NOSCRIPT No matching script. Please use EVAL."))
    assert sent(place) == [b"x", b"whole x"]
    keeper.hears(place, 1)
    assert charge.log == ["request", "answered 1"]


def test_a_charge_with_little_time_is_served_by_a_link_that_is_there_already(keeper: Still) -> None:
    place, spare = Place(), Link()
    place.spare = lambda: spare
    charge = Charge(place, interval=0.2)
    keeper.add(charge, keeper.now)
    keeper.turn()
    assert keeper.statistics()["connected"] == 1
    assert place.opened == 0
    keeper.turn(keeper.now + 0.2)
    assert spare.writes == [[b"x"]]


def test_an_answer_renews_from_when_it_was_asked_for(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1.0)
    due(keeper, charge)
    keeper.connected(place)
    asked = keeper.now
    keeper.now += 0.7
    keeper.hears(place, 1)
    assert keeper.turn() == asked + 1.0


# Failures.


def test_a_link_that_stays_silent_is_closed_and_what_was_under_way_is_unknown(keeper: Still) -> None:
    place = Place()
    charge, waiting = Charge(place, interval=1.0), [Charge(place, interval=1.0) for _ in range(UNDER_WAY)]
    due(keeper, charge, *waiting)
    link = keeper.connected(place)
    assert keeper.turn() == keeper.now + 1.0, "no longer than the shortest interval"
    keeper.turn(keeper.now + 1.0)
    assert link.closed
    assert charge.log == ["request", "unanswered it did not answer in time"]
    assert waiting[-1].log == ["unanswered it did not answer in time"]
    assert link.fileno() not in keeper.watched
    keeper.connected(place)  # at once, and all are asked about at once
    keeper.turn()
    assert place.link is not link
    assert all(each.log[-1] == "request" for each in (charge, *waiting)), (
        "in one write: they are late by a whole interval"
    )


def test_an_answer_that_came_while_the_keeper_was_kept_from_running_is_read(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1.0)
    due(keeper, charge)
    link = keeper.connected(place)
    link.incoming.append(1)
    keeper.turn(keeper.now + 5.0)
    assert not link.closed
    assert charge.log == ["request", "answered 1"]


def test_patience_begins_when_the_request_is_out(keeper: Still) -> None:
    place = Place()
    link = Link()

    def slowly(data: bytes) -> bytes:
        if charge in asked:
            keeper.now += 5.0  # other threads had the interpreter
            asked.remove(charge)
        return b""

    link.push_out = slowly  # type: ignore[method-assign]
    place.opening = lambda: link
    charge = Charge(place, interval=1.0)
    asked = [charge]
    due(keeper, charge)
    keeper.connected(place)
    assert keeper.turn() == keeper.now + 1.0
    assert not link.closed


def test_silence_is_borne_for_two_seconds_at_most_and_50_ms_at_least(keeper: Still) -> None:
    long, short = Place("long"), Place("short")
    due(keeper, Charge(long, interval=1000.0))
    keeper.connected(long)
    assert keeper.turn() == keeper.now + 2.0
    due(keeper, Charge(short, interval=0.003))
    keeper.connected(short)
    assert keeper.turn() == pytest.approx(keeper.now + 0.05)


@pytest.mark.parametrize(
    "error",
    [LinkDown("refused", sent=False), ServerSaid("NOAUTH"), OSError("no route"), ValueError("credentials")],
)
def test_a_connection_that_cannot_be_made_is_unknown_and_tried_again(keeper: Still, error: Exception) -> None:
    place, refusals = Place(), [error]

    def open_second_time() -> Link:
        if refusals:
            raise refusals.pop()
        return Link()

    place.opening = open_second_time
    charge = Charge(place, interval=0.8)
    due(keeper, charge)
    keeper._requests.acquire(timeout=10)
    keeper._requests.release()
    keeper.turn()
    assert charge.log[0].startswith("unanswered")
    assert str(error) in charge.log[0]
    keeper.connected(place)  # at once
    keeper.turn()
    assert sent(place) == [b"x"]


def test_a_link_that_breaks_is_replaced(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=0.8)
    due(keeper, charge)
    link = keeper.connected(place)
    link.broken = LinkDown("the server closed the connection", sent=True)
    keeper.hears(place)
    assert link.closed
    assert charge.log[-1] == "unanswered the server closed the connection"


def test_an_answer_that_nobody_asked_for_ends_the_link(keeper: Still) -> None:
    place = Place()
    due(keeper, Charge(place))
    link = keeper.connected(place)
    keeper.hears(place, 1, 2)
    assert link.closed


def test_one_dead_server_does_not_delay_another(keeper: Still) -> None:
    dead, live, let_go = Place("dead"), Place("live"), threading.Event()

    def block() -> Link:
        let_go.wait(60)
        return Link()

    dead.opening = block
    lost = Charge(dead, interval=1.0, deadline=keeper.now + 2)
    kept = Charge(live, interval=1.0)
    due(keeper, lost, kept)
    keeper.connected(live)
    for _ in range(3):
        keeper.hears(live, 1)
        keeper.turn(keeper.now + 1.0)
    assert kept.log.count("answered 1") == 3
    assert lost.log == ["overdue"], "its deadline is kept although nobody answers"
    let_go.set()


# Charges that fail. None of them may harm the others.


@pytest.mark.parametrize("where", ["request", "answered", "unanswered"])
def test_a_charge_that_fails_does_not_keep_the_others_from_being_renewed(keeper: Still, where: str) -> None:
    place = Place()
    first, bad, last = (Charge(place, name=name, interval=1.0) for name in ("first", "bad", "last"))
    bad.fails_in = where
    due(keeper, first, bad, last)
    _as_its_thread_would(lambda: keeper.connected(place))
    _as_its_thread_would(keeper.turn)
    if where == "unanswered":
        place.link.broken = LinkDown("down", sent=True)
        _as_its_thread_would(lambda: keeper.hears(place))
        _as_its_thread_would(lambda: keeper.turn(keeper.now + 0.125))
        _as_its_thread_would(lambda: keeper.connected(place))
    answers = len(sent(place))
    _as_its_thread_would(lambda: keeper.hears(place, *[1] * answers))
    assert first.log[-1] == "answered 1"
    assert last.log[-1] == "answered 1"


def test_a_charge_that_fails_is_logged_with_what_it_failed_of(keeper: Still, caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    bad = Charge(place)
    bad.fails_in = "request"
    due(keeper, bad)
    _as_its_thread_would(lambda: keeper.connected(place))
    told = threading.Event()
    tell(told.set)
    assert told.wait(10)
    failures = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert failures[-1:] == ["a charge that fails in request"]


def test_no_thread_to_connect_with_is_a_failure_and_not_the_end(keeper: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    charge = Charge(place, interval=0.8)

    def no_threads_left(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_threads_left)
        _as_its_thread_would(lambda: due(keeper, charge))
    _as_its_thread_would(lambda: keeper.turn(keeper.now + 0.5))
    assert keeper._requests.acquire(timeout=1), "it never tries again"
    keeper._requests.release()
    keeper.turn()
    assert b"x" in sent(place)


def test_a_link_that_comes_after_its_client_was_closed_is_closed(keeper: Still) -> None:
    place, let_go = Place(), threading.Event()

    def block() -> Link:
        let_go.wait(10)
        return Link()

    place.opening = block
    charge = Charge(place)
    due(keeper, charge)
    charge.alive = False
    keeper._thread = threading.current_thread()  # forget() does nothing for a keeper that never ran
    keeper.forget(place)  # type: ignore[arg-type]
    keeper.turn()
    let_go.set()
    keeper.connected(place)
    assert place.link.closed


def test_what_was_to_be_sent_when_its_client_was_closed_is_sent(keeper: Still) -> None:
    place, let_go = Place(), threading.Event()

    def block() -> Link:
        let_go.wait(10)
        return Link()

    place.opening = block
    charge = Charge(place)
    due(keeper, charge)
    keeper._thread = threading.current_thread()
    keeper.forget(place)  # type: ignore[arg-type]
    keeper.turn()
    let_go.set()
    keeper.connected(place)
    keeper.turn()
    assert b"x" in sent(place)
    assert not place.link.closed
    charge.alive = False
    keeper.turn(keeper.now + 1)
    assert place.link.closed


def _as_its_thread_would(do: Callable[[], object]) -> None:
    """The keeper's thread goes on after an error."""
    try:
        do()
    except (ValueError, RuntimeError):
        pass
