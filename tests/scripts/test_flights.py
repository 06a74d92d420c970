"""flight_land.lua and flight_drop.lua: one by one, and random sequences against the memory store's twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from holdtight.stores.memory.jobs import flight_drop, flight_land
from holdtight.stores.redis import keys
from holdtight.stores.redis.flights import DROP, LAND
from tests.scripts.twins import TwinMachine, desk_for, owners, play
from tests.scripts.workbench import ALICE, BOB, FAR, Desk
from tests.support.raw import ServerSaid
from tests.support.servers import StartServer

MAIN = keys.main_key("ht", "name")
VALUE, FAILURE = keys.value(MAIN), keys.failure(MAIN)
KEYS = [MAIN, VALUE, FAILURE]


def land(
    desk: Desk, who: bytes, kind: str = "v", payload: str = "7", *, fresh: int = 60_000, stale: int = 0, late: int = FAR
) -> Any:
    return desk.wire.call("EVAL", desk.text_of(LAND), 3, *KEYS, who, kind, fresh, stale, payload, late)


def drop(desk: Desk, how: str = "gone", *, late: int = FAR) -> Any:
    return desk.wire.call("EVAL", desk.text_of(DROP), 3, *KEYS, how, late)


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


def test_an_invalidation_that_arrives_too_late_drops_no_newer_value(desk: Desk) -> None:
    desk.attempt(ALICE)
    assert land(desk, ALICE, payload="newer") == 1
    for how in ("gone", "stale"):
        assert drop(desk, how, late=1)[0] == -1
    assert desk.wire.call("GET", VALUE).endswith(b"newer")
    assert desk.wire.call("EXISTS", FAILURE) == 0, "nor does it spoil a later flight"


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


class Machine(TwinMachine):
    def prepare(self) -> None:
        self.spoiled: set[bytes] = set()
        """Owners whose grant is older than the last invalidation."""

    def granted(self, who: bytes) -> None:
        self.spoiled.discard(who)

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

    @rule(how=st.sampled_from(["gone", "stale"]), late=st.sampled_from([False, False, True]))
    def drop(self, how: str, late: bool) -> None:
        self.time_passes(0)
        if self.name.holder and not late:
            self.spoiled.add(self.name.holder)
        limit = self.now_us - 1 if late else FAR
        reply = drop(self.desk, how, late=limit)
        assert reply == flight_drop(self.name, self.shelf, KEYS, how.encode(), b"%d" % limit)

    @invariant()
    def what_is_stored_is_the_same(self) -> None:
        self.same_on_both(VALUE, FAILURE)


def test_the_scripts_do_what_their_twin_does(start_server: StartServer) -> None:
    with desk_for(Machine, start_server()) as machine:
        play(machine, 60)
