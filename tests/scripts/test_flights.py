"""flight_land.lua and flight_drop.lua: one by one, and random sequences against the memory store's twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from holdtight.stores.memory.engine import TAIL, Name
from holdtight.stores.memory.jobs import flight_drop, flight_land
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.redis import keys
from holdtight.stores.redis.flights import DROP, LAND
from holdtight.stores.times import SPOIL_MS
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.test_machine import EXAMPLES, START
from tests.scripts.workbench import ALICE, BOB, FAR, Desk, owner
from tests.support.raw import ServerSaid
from tests.support.servers import StartServer

MAIN = keys.main_key("ht", "name")
VALUE, FAILURE = keys.value(MAIN), keys.failure(MAIN)
KEYS = [MAIN, VALUE, FAILURE]


def land(
    desk: Desk, who: bytes, kind: str = "v", payload: str = "7", *, fresh: int = 60_000, stale: int = 0, late: int = FAR
) -> Any:
    return desk.wire.call("EVAL", desk.text_of(LAND), 3, *KEYS, who, kind, fresh, stale, payload, late)


def drop(desk: Desk, how: str = "gone") -> Any:
    return desk.wire.call("EVAL", desk.text_of(DROP), 3, *KEYS, how)


def test_only_the_holder_lands(desk: Desk) -> None:
    assert land(desk, ALICE) == [0, b""]
    desk.attempt(ALICE)
    assert land(desk, BOB) == [0, ALICE]
    assert land(desk, ALICE, late=1)[0] == -1
    assert desk.wire.call("EXISTS", VALUE) == 0
    assert land(desk, ALICE, stale=5_000) == 1
    assert desk.wire.call("GET", VALUE) == b"v1v%012d%012d7" % (60_000, 5_000)
    assert 63_000 < desk.time_left(VALUE) <= 65_000


def test_a_late_leader_overwrites_nothing(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(1_001)
    desk.attempt(BOB)
    assert land(desk, BOB, payload="new") == 1
    assert land(desk, ALICE, payload="old") == [0, BOB]
    assert desk.wire.call("GET", VALUE).endswith(b"new")


def test_an_invalidation_spoils_the_flight_in_the_air_and_no_later_one(desk: Desk) -> None:
    desk.attempt(ALICE)
    assert drop(desk) == 0
    for _ in range(2):  # the answer may be lost, and asked for again
        assert land(desk, ALICE, payload="old") == 2
    assert desk.wire.call("EXISTS", VALUE) == 0
    desk.release(ALICE)
    drop(desk)
    desk.attempt(BOB)
    assert land(desk, BOB) == 1
    assert drop(desk) == 1
    desk.release(BOB)
    desk.attempt(ALICE)
    assert land(desk, ALICE) == 1, "the mark names another flight"
    assert desk.wire.call("EXISTS", FAILURE) == 0


def test_a_value_is_made_stale_or_dropped_if_it_cannot_be(desk: Desk) -> None:
    desk.attempt(ALICE)
    land(desk, ALICE, stale=5_000)
    desk.release(ALICE)
    assert drop(desk, "stale") == 1
    assert 3_000 < desk.time_left(VALUE) <= 5_000
    assert drop(desk, "stale") == 0
    desk.attempt(BOB)
    land(desk, BOB)
    assert drop(desk, "stale") == 1
    assert desk.wire.call("EXISTS", VALUE) == 0


def test_a_failure_stays_as_long_as_was_said_and_a_value_clears_it(desk: Desk) -> None:
    desk.attempt(ALICE)
    assert land(desk, ALICE, "f", "OSError: no", fresh=9_000) == 1
    assert desk.wire.call("GET", FAILURE) == b"e1fOSError: no"
    assert 7_000 < desk.time_left(FAILURE) <= 9_000
    assert land(desk, ALICE) == 1
    assert desk.wire.call("EXISTS", FAILURE) == 0


@pytest.mark.parametrize("key", [VALUE, FAILURE], ids=["value", "failure"])
def test_a_key_of_another_program_is_left_alone(desk: Desk, key: bytes) -> None:
    desk.wire.call("SET", key, "something")
    desk.attempt(ALICE)
    with pytest.raises(ServerSaid, match="HTFOREIGN"):
        land(desk, ALICE)
    with pytest.raises(ServerSaid, match="HTFOREIGN"):
        drop(desk)
    assert desk.wire.call("GET", key) == b"something"


owners = st.sampled_from([owner(f"owner {n}") for n in range(3)])


class Machine(RuleBasedStateMachine):
    desk: ClockworkDesk

    @initialize(micros=st.sampled_from([0, 999_999]))
    def open(self, micros: int) -> None:
        self.desk.wire.call("FLUSHALL")
        self.now_us = START + micros
        self.name, self.shelf = Name(self.now_us), Shelf()
        self.spoiled: set[bytes] = set()
        """Owners whose grant is older than the last invalidation."""
        self.time_passes(1)

    @rule(ms=st.sampled_from([0, 1, 50, 100, 101, 120, 121, TAIL, 30_000, SPOIL_MS]))
    def time_passes(self, ms: int) -> None:
        self.now_us += ms * 1000 + 1
        self.name.set_clock(self.now_us)
        self.desk.set_clock(self.now_us)

    @rule(who=owners, ttl=st.sampled_from([120, 30_000, 7 * 24 * 3600 * 1000]))
    def take(self, who: bytes, ttl: int) -> None:
        self.time_passes(0)
        before = self.name.holder
        self.desk.ask(who, ttl=ttl)
        self.name.attempt(who, ttl=ttl, limit=0, label=b"", inbox=b"", not_after=FAR)
        if self.name.holder == who and before != who:
            self.spoiled.discard(who)

    @rule(who=owners)
    def give(self, who: bytes) -> None:
        self.desk.release(who)
        self.name.release(who)

    @rule(
        who=owners, kind=st.sampled_from("vvnf"), fresh=st.sampled_from([1, 100, 60_000]),
        stale=st.sampled_from([0, 50]), late=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def land(self, who: bytes, kind: str, fresh: int, stale: int, late: bool) -> None:
        self.time_passes(0)
        limit = self.now_us - 1 if late else FAR
        reply = land(self.desk, who, kind, f"{self.now_us}", fresh=fresh, stale=stale, late=limit)
        args = (kind.encode(), b"%d" % fresh, b"%d" % stale, b"%d" % self.now_us, b"%d" % limit)
        assert reply == flight_land(self.name, self.shelf, KEYS, who, *args)
        if reply == 1:
            assert self.name.holder == who
            assert kind == "f" or who not in self.spoiled

    @rule(how=st.sampled_from(["gone", "stale"]))
    def drop(self, how: str) -> None:
        self.time_passes(0)
        if self.name.holder:
            self.spoiled.add(self.name.holder)
        assert drop(self.desk, how) == flight_drop(self.name, self.shelf, KEYS, how.encode())

    @invariant()
    def what_is_stored_is_the_same(self) -> None:
        for key in (VALUE, FAILURE):
            due = self.desk.expiry(key)
            stored = self.desk.wire.call("GET", key)
            if due is not None and due < self.name.now:
                stored = None
            assert stored == self.shelf.get(key, self.name.now)
            if stored:
                assert due == self.name.now + self.shelf.left(key, self.name.now)


@pytest.fixture
def machine(start_server: StartServer) -> Iterator[type[Machine]]:
    desk = ClockworkDesk(start_server())

    class Equipped(Machine):
        pass

    Equipped.desk = desk
    yield Equipped
    desk.close()


def test_the_scripts_do_what_their_twin_does(machine: type[Machine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or 60,
            stateful_step_count=30,
            deadline=None,
            derandomize=not EXAMPLES,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
