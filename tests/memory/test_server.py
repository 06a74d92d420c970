"""The server in this process: its answers, what it forgets, and interruptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import hiredis
import pytest

from holdtight.stores.memory.engine import FRESH, Name
from holdtight.stores.memory.link import requests_in
from holdtight.stores.memory.server import Server
from holdtight.stores.redis import script, wait_records
from holdtight.stores.redis.keys import keys_of
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script

START = 1_800_000_000_000_000
FAR = 9_000_000_000_000_000
ALICE, BOB = b"alice".ljust(24, b"-"), b"bob".ljust(24, b"-")


class Desk:
    """A server on the test's clock, with the requests of clients."""

    def __init__(self) -> None:
        self.now_us = START
        self.server = Server(lambda: self.now_us)
        self.heard: list[bytes] = []
        self.server.subscribe(b"inbox", self.heard.append)

    def ask(self, request: bytes) -> Any:
        (argv,) = requests_in(request)
        return self.server.execute(argv)

    def run(self, what: Script, name: str = "name", **args: Any) -> Any:
        if "px" in what.argv:
            args["px"] = args["ttl"] + 10_000
        keys = keys_of("ht", name)
        given = [args[each] for each in what.argv[: what.needed]]
        return self.ask(what.request(tuple(getattr(keys, each) for each in what.keys), *given))

    def attempt(self, who: bytes, name: str = "name", ttl: int = 30_000, limit: int = 10) -> Any:
        args: dict[str, Any] = {"ttl": ttl, "limit": limit, "label": "", "inbox": b"inbox", "not_after": FAR}
        return self.run(script.ATTEMPT, name, owner=who, **args)

    def release(self, who: bytes, name: str = "name") -> Any:
        return self.run(script.RELEASE, name, owner=who)

    def stored(self) -> int:
        return len(self.server._round)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def error(reply: Any) -> str:
    assert isinstance(reply, hiredis.ReplyError)
    return str(reply)


# Answers.


def test_a_free_lock_is_answered_with_the_bare_fence_as_the_script_does(desk: Desk) -> None:
    assert desk.attempt(ALICE) == b"%d" % START
    assert desk.attempt(BOB, limit=0)[:3] == [0, START // 1000, ALICE]
    assert desk.release(ALICE) == 1


def test_a_grant_whose_fence_is_not_the_time_has_the_long_form(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.release(ALICE)
    assert desk.attempt(BOB) == [1, b"%d" % (START + 1), START // 1000, b""], "in the same microsecond"
    desk.now_us += 31_000_000
    reply = desk.attempt(ALICE)
    assert reply == [1, b"%d" % desk.now_us, desk.now_us // 1000, BOB], "it names the expired holder"


def test_a_release_rings_the_next_in_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    assert desk.heard == []
    assert desk.release(ALICE) == 3
    assert desk.heard == [b"g" + BOB]


def test_an_inspection_reads_as_that_of_the_script(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    now, value, left, sharing, line, waiting, living = desk.run(script.INSPECT, most=500)
    assert (now, value, left) == (START // 1000, b"x1q%b%d" % (ALICE, START), 30_000)
    assert line == [BOB, b"x-%013d%09d%013d05inbox" % (now + 5000, 30_000, now)]
    assert (sharing, waiting, living) == ([], 1, 0)


def test_every_script_is_known_by_its_hash_and_by_its_text(desk: Desk) -> None:
    scripts = [each for each in [*vars(script).values(), *vars(wait_records).values()] if isinstance(each, Script)]
    assert len(scripts) >= 12
    for each in scripts:
        keys = [b"ht:{name}"] * 4
        for word, body in ((b"EVALSHA", each.sha.encode()), (b"EVAL", each.body)):
            answer = str(desk.server.execute([word, body, b"4", *keys]))
            assert "NOSCRIPT" not in answer


def test_a_script_that_comes_whole_does_the_same(desk: Desk) -> None:
    keys = keys_of("ht", "name")
    request = script.RELEASE.request(tuple(keys), ALICE)
    desk.attempt(ALICE)
    assert desk.ask(script.with_script_body(request)) == 1


def test_what_is_not_known_is_an_error_reply(desk: Desk) -> None:
    assert error(desk.ask(command("EVALSHA", "0" * 40, 0))).startswith("NOSCRIPT")
    assert "unknown command 'WAIT'" in error(desk.ask(command("WAIT", 1, 0)))
    assert error(desk.ask(command("EVALSHA", script.RELEASE.sha, 3, "a", "b"))).startswith("ERR")


def test_plain_keys_are_read_written_removed_and_expire(desk: Desk) -> None:
    assert desk.ask(command("SET", "a", "1", "EX", 60)) == b"OK"
    assert desk.ask(command("SET", "b", "2", "PX", 500)) == b"OK"
    assert desk.ask(command("SET", "c", "3")) == b"OK"
    assert desk.ask(command("MGET", "a", "b", "c", "d")) == [b"1", b"2", b"3", None]
    desk.now_us += 501_000
    assert desk.ask(command("MGET", "a", "b", "c")) == [b"1", None, b"3"]
    assert desk.ask(command("DEL", "a", "b", "d")) == 1
    assert desk.ask(command("GET", "a")) is None
    assert desk.ask(command("SET", "a", "again")) == b"OK"
    assert desk.ask(command("GET", "a")) == b"again"
    assert desk.ask(command("TIME")) == [b"1800000000", b"501000"]


# Forgetting.


def test_names_that_are_used_once_do_not_stay(desk: Desk) -> None:
    for number in range(40_000):
        desk.now_us += 500
        desk.attempt(ALICE, f"order:{number}")
        desk.release(ALICE, f"order:{number}")
    assert desk.stored() < 15_000, (
        "20 s have passed: all have been visited, and most are gone before their 10 s are over"
    )
    desk.now_us += 10_001_000
    for number in range(10_000):
        desk.attempt(ALICE, f"other:{number}")
        desk.release(ALICE, f"other:{number}")
    assert desk.stored() < 15_000
    assert not any(b"order" in key for key in desk.server._names)


def test_names_that_are_held_waited_for_or_marked_stay(desk: Desk) -> None:
    desk.attempt(ALICE, "held", ttl=3_600_000)
    desk.attempt(ALICE, "wanted", ttl=3_600_000)
    desk.attempt(BOB, "wanted")
    desk.run(script.WITHDRAW, "marked", owner=BOB, marker=START // 1000 + 60_000)
    for number in range(20_000):
        desk.now_us += 200
        desk.attempt(ALICE, f"order:{number}")
        desk.release(ALICE, f"order:{number}")
        if number % 1000 == 0:
            desk.run(script.TOUCH, "wanted", owner=BOB, inbox=b"inbox")
    assert desk.attempt(BOB, "held", limit=0)[2] == ALICE
    assert desk.release(ALICE, "wanted") == 1
    assert desk.heard == [b"g" + BOB]
    assert desk.attempt(BOB, "marked")[0] == -3


def test_lapsed_markers_do_not_stay_in_a_name_that_is_in_use(desk: Desk) -> None:
    for number in range(5_000):
        desk.now_us += 10_000
        desk.run(script.WITHDRAW, owner=b"%024d" % number, marker=desk.now_us // 1000 + 100)
    assert len(desk.server._names[b"ht:{name}"].markers) < 200


def test_clients_that_come_and_go_do_not_stay(desk: Desk) -> None:
    for number in range(20_000):
        desk.now_us += 10_000
        desk.ask(command("SET", f"client:{number}", "here", "EX", 60))
        if number % 2:
            desk.ask(command("DEL", f"client:{number}"))
    assert desk.stored() < 10_000
    assert len(desk.server._plain) == desk.stored()


def test_a_store_that_nobody_uses_and_that_holds_nothing_is_empty(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.release(ALICE)
    assert not desk.server.empty, "a listener is there"
    desk.server.unsubscribe(b"inbox")
    assert not desk.server.empty, "the fence is remembered for a while"
    desk.now_us += 10_001_000
    assert desk.server.empty


# Interruptions, as by a signal handler or a finalizer: whatever runs in the middle of a request.


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Interrupts the next grant between the decision and the reply."""

    def arm(what: Callable[[], None]) -> None:
        grant = Name._grant

        def interrupt(self: Name, *args: Any) -> None:
            monkeypatch.setattr(Name, "_grant", grant)
            what()
            grant(self, *args)

        monkeypatch.setattr(Name, "_grant", interrupt)

    return arm


def test_a_request_that_interrupts_another_at_the_same_name_is_refused(
    desk: Desk, interrupted: Callable[[Callable[[], None]], None]
) -> None:
    inner: list[Any] = []
    interrupted(lambda: inner.append(desk.attempt(BOB)))
    assert desk.attempt(ALICE) == b"%d" % START
    assert error(inner[0]).startswith("BUSY "), "or both would hold it"
    assert desk.attempt(BOB)[2] == ALICE, "and later it is answered"


def test_a_request_that_interrupts_another_at_another_name_is_carried_out(
    desk: Desk, interrupted: Callable[[Callable[[], None]], None]
) -> None:
    inner: list[Any] = []
    interrupted(lambda: inner.append(desk.attempt(BOB, "other")))
    assert desk.attempt(ALICE) == b"%d" % START
    assert inner == [b"%d" % START]


def test_a_request_that_is_broken_off_leaves_the_name_to_the_next(
    desk: Desk, interrupted: Callable[[Callable[[], None]], None]
) -> None:
    def ctrl_c() -> None:
        raise KeyboardInterrupt

    interrupted(ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        desk.attempt(ALICE)
    assert desk.attempt(BOB) == b"%d" % START
    from_elsewhere = threading.Thread(target=desk.release, args=(BOB,))
    from_elsewhere.start()
    from_elsewhere.join(10)
    assert not from_elsewhere.is_alive(), "nobody holds the server"


def test_a_bell_that_was_rung_before_the_break_is_heard(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)

    def ctrl_c(self: Name, *given: Any) -> None:
        raise KeyboardInterrupt

    desk.now_us += 1000 * FRESH
    monkeypatch.setattr(Name, "_note_runner_up", ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        desk.release(ALICE)
    assert desk.heard == [b"g" + BOB]
    assert desk.attempt(BOB) == b"%d" % desk.now_us


def test_threads_get_one_answer_each_and_one_of_them_the_lock(desk: Desk) -> None:
    """Some thousand attempts from eight threads: never two grants without a release between them."""
    inside: list[int] = []
    worst: list[int] = []
    end = time.monotonic() + 0.5

    def work(number: int) -> None:
        who = b"%024d" % number
        while time.monotonic() < end:
            if isinstance(desk.attempt(who, limit=0), bytes):
                inside.append(number)
                worst.append(len(inside))
                inside.remove(number)
                desk.now_us += 2
                desk.release(who)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(worst) > 100
    assert max(worst) == 1
