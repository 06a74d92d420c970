"""once_begin.lua and once_end.lua: one by one, and random sequences against the memory store's twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from holdtight.base.plan import ServerSaid as Refusal
from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.jobs import once_begin, once_end
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.redis import keys
from holdtight.stores.redis.records import BEGIN, END
from tests.scripts.twins import START, TwinMachine, desk_for, owners, play
from tests.scripts.workbench import ALICE, BOB, FAR, Desk
from tests.support.raw import ServerSaid
from tests.support.servers import StartServer

RECORD = keys.record(keys.main_key("ht", "name"))
OCCURRENCE = keys.record(keys.main_key("ht", "name"), "2026-11-18")


def begin(desk: Desk, who: bytes, *, key: bytes = RECORD, keep: int = 60_000, every: int = 1, late: int = FAR) -> Any:
    return desk.wire.call("EVAL", desk.text_of(BEGIN), 2, desk.keys.main, key, who, keep, every, "{}", late)


def end(desk: Desk, who: bytes, state: str, key: bytes = RECORD) -> Any:
    return desk.wire.call("EVAL", desk.text_of(END), 1, key, who, state, '{"x":1}')


def test_only_the_holder_begins(desk: Desk) -> None:
    assert begin(desk, ALICE) == [0, b""]
    fence = desk.attempt(ALICE)
    assert begin(desk, BOB) == [0, ALICE]
    done, started = begin(desk, ALICE)
    assert done == 1
    value = desk.wire.call("GET", RECORD)
    assert value.startswith(b"o1r" + ALICE)
    assert int(started) >= int(fence if isinstance(fence, bytes) else fence[1])
    assert 59_000 < desk.time_left(RECORD) <= 60_000
    assert begin(desk, ALICE) == [1, started], "its reply was lost: the same start"


def test_a_record_stands_in_the_way_of_the_next(desk: Desk) -> None:
    desk.attempt(ALICE)
    begin(desk, ALICE)
    desk.release(ALICE)
    desk.attempt(BOB)
    said = begin(desk, BOB)
    assert said[0] == 2
    assert said[1] == desk.wire.call("GET", RECORD)
    assert begin(desk, BOB, key=OCCURRENCE)[0] == 1, "every occurrence has a record of its own"
    assert begin(desk, BOB, every=0)[0] == 1, "a run that did not return does not count"
    assert end(desk, ALICE, "d") == 0, "that record is another run's by now"


def test_an_end_keeps_the_time_that_the_record_stays(desk: Desk) -> None:
    desk.attempt(ALICE)
    begin(desk, ALICE, keep=5_000)
    assert end(desk, ALICE, "f") == 1
    assert 3_000 < desk.time_left(RECORD) <= 5_000
    assert desk.wire.call("GET", RECORD).endswith(b'{"x":1}')
    assert end(desk, ALICE, "d") == 0, "a run ends once"


def test_a_record_is_taken_back_by_its_owner_before_the_end_only(desk: Desk) -> None:
    desk.attempt(ALICE)
    begin(desk, ALICE)
    assert end(desk, BOB, "") == 0
    assert end(desk, ALICE, "") == 1
    assert desk.wire.call("GET", RECORD) is None
    begin(desk, ALICE)
    end(desk, ALICE, "d")
    assert end(desk, ALICE, "") == 0


def test_an_expired_lease_and_a_late_request_write_nothing(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    assert begin(desk, ALICE, late=1)[0] == -1
    desk.pass_time(1_001)
    assert begin(desk, ALICE) == [0, b""]
    desk.read(BOB)
    assert begin(desk, BOB) == [0, b""], "a reader is alone with nothing"
    assert desk.wire.call("GET", RECORD) is None


@pytest.mark.parametrize("foreign", [("SET", RECORD, "something"), ("RPUSH", RECORD, "x")], ids=["text", "list"])
def test_a_key_of_another_program_is_left_alone(desk: Desk, foreign: tuple[Any, ...]) -> None:
    desk.wire.call(*foreign)
    desk.attempt(ALICE)
    with pytest.raises(ServerSaid, match=r"HTFOREIGN|WRONGTYPE"):
        begin(desk, ALICE)


records = st.sampled_from([RECORD, RECORD, OCCURRENCE])
states = st.sampled_from(["d", "f", "", "d"])


class Machine(TwinMachine):
    @rule(who=owners, key=records, keep=st.sampled_from([1, 100, 60_000]), every=st.integers(0, 1), late=st.booleans())
    def begin(self, who: bytes, key: bytes, keep: int, every: int, late: bool) -> None:
        self.time_passes(0)
        limit = self.now_us - 1 if late else FAR
        reply = begin(self.desk, who, key=key, keep=keep, every=every, late=limit)
        args = (b"%d" % keep, b"%d" % every, b"{}", b"%d" % limit)
        before = self.shelf.get(key, self.name.now)
        assert reply == once_begin(self.name, self.shelf, [self.desk.keys.main, key], who, *args)
        if reply[0] == 1:
            assert self.name.holder == who, "only the holder starts"
            assert before is None or before[3:27] == who or not every

    @rule(who=owners, key=records, state=states)
    def end(self, who: bytes, key: bytes, state: str) -> None:
        self.time_passes(0)
        reply = end(self.desk, who, state, key)
        assert reply == once_end(self.name, self.shelf, [key], who, state.encode(), b'{"x":1}')

    @rule(key=records)
    def forget(self, key: bytes) -> None:
        self.desk.wire.call("DEL", key)
        self.desk.wire.call("HDEL", "~expiries", key)
        self.shelf.drop(key, self.name.now)

    @invariant()
    def the_records_are_the_same(self) -> None:
        self.same_on_both(RECORD, OCCURRENCE)


def test_the_scripts_do_what_their_twin_does(start_server: StartServer) -> None:
    with desk_for(Machine, start_server()) as machine:
        play(machine, 60)


def test_the_twin_refuses_a_key_of_another_program_too() -> None:
    name, shelf = Name(START), Shelf()
    name.attempt(ALICE, ttl=1_000, limit=0, label=b"", inbox=b"", not_after=FAR)
    shelf.put(RECORD, b"something", None)
    with pytest.raises(Refusal, match="HTFOREIGN"):
        once_begin(name, shelf, [b"", RECORD], ALICE, b"1000", b"1", b"", b"%d" % FAR)
