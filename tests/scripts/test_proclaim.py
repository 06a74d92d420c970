"""proclaim.lua: one by one, and random sequences against the memory store's twin."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.jobs import proclaim
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.redis.proclaiming import PROCLAIM
from tests.scripts.twins import TwinMachine, desk_for, owners, play
from tests.scripts.workbench import ALICE, BOB, FAR, Desk
from tests.support.servers import StartServer


def ask(desk: Desk, who: bytes, label: str, late: int = FAR) -> object:
    return desk.wire.call("EVAL", PROCLAIM.body, 1, desk.keys.main, who, label, late)


def test_only_the_label_of_ones_own_grant_changes(desk: Desk) -> None:
    assert ask(desk, ALICE, "x") == [0, b""]
    desk.attempt(ALICE, label="old")
    before, left = desk.wire.call("GET", desk.keys.main), desk.time_left(desk.keys.main)
    assert ask(desk, BOB, "x") == [0, ALICE]
    assert ask(desk, ALICE, "a new one") == 1
    assert desk.wire.call("GET", desk.keys.main) == before[:43] + b"a new one"
    assert left - 2_000 < desk.time_left(desk.keys.main) <= left
    late = ask(desk, ALICE, "late", 1)
    assert isinstance(late, list)
    assert late[0] == -1
    assert desk.renew(ALICE) == 1
    assert desk.release(ALICE) == 1
    assert ask(desk, ALICE, "x") == [0, b""]
    desk.read(BOB)
    assert ask(desk, BOB, "x") == [0, b""]


labels = st.sampled_from(["", "one", "10.0.0.5:80", "x" * 128])


class Machine(TwinMachine):
    @rule(who=owners, label=labels, late=st.sampled_from([False, False, True]))
    def proclaim(self, who: bytes, label: str, late: bool) -> None:
        self.time_passes(0)
        limit = self.now_us - 1 if late else FAR
        reply = self.desk.wire.call("EVAL", self.desk.text_of(PROCLAIM), 1, self.desk.keys.main, who, label, limit)
        assert reply == proclaim(self.name, self.shelf, [], who, label.encode(), b"%d" % limit)
        if reply == 1:
            assert self.name.holder == who

    @invariant()
    def the_labels_are_the_same(self) -> None:
        if self.name.holder:
            assert self.name.main is not None
            assert self.desk.wire.call("GET", self.desk.keys.main)[43:] == self.name.main.label


def test_the_script_does_what_its_twin_does(start_server: StartServer) -> None:
    with desk_for(Machine, start_server()) as machine:
        play(machine, 40)


@pytest.mark.parametrize("who", [ALICE, BOB], ids=["holder", "other"])
@pytest.mark.parametrize("ms", [0, 29_999, 30_000, 30_001])
@pytest.mark.parametrize("late", [False, True])
def test_the_twin_answers_alike(desk: Desk, who: bytes, ms: int, late: bool) -> None:
    desk.attempt(ALICE, label="old", ttl=30_000)
    name = Name(desk.now_us())
    name.attempt(ALICE, ttl=30_000, limit=0, label=b"old", inbox=b"", not_after=FAR)
    if ms < 29_999:
        reply = ask(desk, who, "new", 1 if late else FAR)
    else:
        desk.pass_time(ms + 1_000 * (ms > 29_999) - 2_000 * (ms < 30_000))
        name.set_clock(name.now_us + (ms + 1_000 * (ms > 29_999) - 2_000 * (ms < 30_000)) * 1000)
        reply = ask(desk, who, "new", 1 if late else FAR)
    twin = proclaim(name, Shelf(), [], who, b"new", b"1" if late else b"%d" % FAR)
    assert reply == twin or (late and isinstance(reply, list) and reply[0] == twin[0] == -1)
    if twin == 1:
        assert name.main is not None
        assert desk.wire.call("GET", desk.keys.main)[43:] == name.main.label == b"new"
