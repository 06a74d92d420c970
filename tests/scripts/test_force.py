"""force.lua alone: which grants it takes away, what it leaves for their owners, and what it answers again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight.base.values import LISTED
from holdtight.stores.memory.engine import TAIL
from holdtight.stores.redis.forcing import FORCE
from tests.scripts.test_out_of_memory import out_of_memory
from tests.scripts.workbench import ALICE, BOB, CAROL, FAR, Desk, Inbox, fence_of

AUDIT = b"ht:audit"
ALARM = b"ht:alarm:somebody"


def force(
    desk: Desk,
    *owners: bytes,
    number: int = 1,
    not_after: int = FAR,
    floor: int = 0,
    votes: int = 0,
    span: int = 9000,
    recorded: tuple[bytes, ...] = (),
) -> Any:
    parts = [part for owner in owners for part in (owner, ALARM, b'{"owner": 1}')]
    request: list[Any] = [f"{number:032}", not_after, floor, votes, span, "{}", *parts]
    keys = (*desk.keys, AUDIT, *recorded)
    return desk.wire.call("EVAL", FORCE.body, len(keys), *keys, *request)


def records(desk: Desk) -> int:
    return int(desk.wire.call("XLEN", AUDIT))


def test_the_owner_is_told_whatever_it_asks_next(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    done = force(desk, ALICE)
    assert done[0] == 1
    assert int(done[2]) > int(fence)
    assert done[3:] == [b"", 1, ALICE]
    told = b"%d" % int(fence)
    assert desk.renew(ALICE) == [0, b"", told]
    assert desk.release(ALICE) == [0, b"", told]
    assert desk.adopt(ALICE, BOB)[::2] == [0, b""]
    assert desk.adopt(ALICE, BOB)[3] == told
    assert desk.downgrade(ALICE)[3] == told
    assert desk.withdraw(ALICE) == [0, b"", told]
    assert int(fence_of(desk.attempt(BOB))) > int(done[2])
    assert desk.renew(ALICE) == [0, BOB, told]
    assert desk.release(ALICE) == [0, BOB, told]


def test_the_notes_stay_as_long_as_the_owner_could_renew_and_no_longer(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=60_000)
    force(desk, ALICE)
    assert 59_000 + TAIL < desk.time_left(desk.keys.waiters) <= 60_000 + TAIL
    assert desk.time_left(desk.keys.main) <= TAIL
    assert desk.state().flagged


def test_a_new_grant_to_the_same_owner_is_not_taken_for_the_old_one(desk: Desk) -> None:
    """The reply to its attempt was lost, it was forced, and it asks again."""
    desk.attempt(ALICE)
    done = force(desk, ALICE)
    assert int(fence_of(desk.attempt(ALICE))) > int(done[2])
    assert desk.renew(ALICE) == 1
    assert desk.release(ALICE) == 1
    assert desk.renew(ALICE) == [0, b""]


def test_an_owner_that_was_handed_the_name_and_forced_before_it_came_keeps_its_place(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=b"the inbox")
    desk.release(ALICE)
    assert desk.state().owner == BOB
    assert force(desk, BOB)[0] == 1
    desk.attempt(CAROL)
    desk.attempt(BOB, inbox=b"the inbox")
    desk.release(CAROL)
    assert desk.state().owner == BOB
    assert desk.attempt(BOB, inbox=b"the inbox")[0] == 1
    assert desk.renew(BOB) == 1


def test_asked_again_it_answers_the_same_and_hits_nobody(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=b"the inbox")
    done = force(desk, ALICE)
    assert done[3] == BOB
    assert desk.attempt(BOB, inbox=b"the inbox")[0] == 1
    before = desk.dump()
    assert force(desk, ALICE) == done
    assert desk.dump() == before
    assert force(desk, ALICE, number=2)[0] == 0
    assert records(desk) == 1
    assert desk.renew(BOB) == 1


def test_a_late_order_is_refused(desk: Desk) -> None:
    desk.attempt(ALICE)
    before = desk.dump()
    assert force(desk, ALICE, not_after=desk.now_us() - 1)[0] == -1
    assert desk.dump() == before


@pytest.mark.parametrize("what", ["another", "nobody", "expired"])
def test_who_does_not_hold_it_is_not_hit(desk: Desk, what: str) -> None:
    if what != "nobody":
        desk.attempt(BOB if what == "another" else ALICE, ttl=1_000)
    if what == "expired":
        desk.pass_time(1_001)
    before = desk.dump()
    assert force(desk, ALICE)[0] == 0
    assert desk.dump() == before
    assert records(desk) == 0


def test_one_of_several_readers(desk: Desk) -> None:
    fences = {who: fence_of(desk.read(who)) for who in (ALICE, BOB, CAROL)}
    done = force(desk, BOB)
    assert done[5:] == [BOB]
    assert desk.release(BOB) == [0, b"", b"%d" % int(fences[BOB])], "while others still share the name"
    assert desk.renew(ALICE) == 1
    assert desk.state().fence == int(done[2])
    assert desk.release(ALICE) == 1
    assert desk.release(CAROL) == 1
    assert int(fence_of(desk.attempt(BOB))) > int(done[2])


def test_the_alarm_rings_for_each(desk: Desk, listen: Callable[[bytes], Inbox]) -> None:
    heard = listen(ALARM)
    desk.permit(ALICE, 1, 3)
    desk.permit(BOB, 2, 3)
    force(desk, ALICE, BOB, CAROL)
    assert sorted(heard.bells()) == sorted([b"k" + ALICE, b"k" + BOB])
    assert records(desk) == 1


@pytest.mark.parametrize("votes", [0, 1])
def test_a_server_out_of_memory_obeys(desk: Desk, votes: int) -> None:
    fence = fence_of(desk.attempt(ALICE))
    with out_of_memory(desk):
        assert force(desk, ALICE, votes=votes)[0] == 1
    assert records(desk) == 1
    assert desk.renew(ALICE) == [0, b"", b"%d" % int(fence)]


def test_about_a_thousand_records_stay(desk: Desk) -> None:
    """A stream is cut in pieces of a hundred entries."""
    fill = "for i = 1, 1500 do redis.call('XADD', KEYS[1], '*', 'id', i) end"
    desk.wire.call("EVAL", fill, 1, AUDIT)
    desk.attempt(ALICE)
    assert force(desk, ALICE)[0] == 1
    assert 1000 <= records(desk) <= 1100
    ((_, newest),) = desk.wire.call("XREVRANGE", AUDIT, "+", "-", "COUNT", 1)
    assert newest[:2] == [b"id", b"%032d" % 1]


def test_a_node_that_had_no_vote_of_the_owner_refuses_it_too(desk: Desk) -> None:
    assert force(desk, ALICE, votes=1, span=8_000)[0] == 0
    assert records(desk) == 0
    assert desk.attempt(ALICE)[0] == -3
    assert 7_000 < desk.time_left(desk.keys.waiters) <= 8_000


def test_nodes_take_the_fence_that_they_are_told(desk: Desk) -> None:
    desk.attempt(ALICE)
    told = desk.now_us() + 500_000
    assert int(force(desk, ALICE, votes=1, floor=told)[2]) == told
    desk.wire.call("FLUSHALL")
    desk.attempt(ALICE)
    wrong = desk.now_us() + 5_000_000
    assert int(force(desk, ALICE, votes=1, floor=wrong)[2]) < wrong


def test_a_fence_ahead_of_the_clock_is_exceeded(desk: Desk) -> None:
    ahead = desk.now_us() + 3_600_000_000
    desk.put_held(ALICE, ahead)
    assert int(force(desk, ALICE)[2]) == ahead + 1
    assert int(fence_of(desk.attempt(BOB))) == ahead + 2


RECORDED = (b"ht:client:a", b"ht:waits:a", b"ht:client:b", b"ht:waits:b", b"ht:client:a", b"ht:waits:c")


def write_records(desk: Desk) -> None:
    """Of the two clients, and of the wait of the third owner; one key belongs to another program."""
    for key in (RECORDED[0], RECORDED[2], RECORDED[5]):
        desk.wire.call("SET", key, b"\x00{" + key)
    desk.wire.call("RPUSH", RECORDED[3], "precious")


def told(desk: Desk) -> list[bytes]:
    ((_, fields),) = desk.wire.call("XREVRANGE", AUDIT, "+", "-", "COUNT", 1)
    return [value for word, value in zip(fields[::2], fields[1::2], strict=True) if word == b"told"]


def test_what_the_records_say_of_those_that_held_it_is_added(desk: Desk) -> None:
    write_records(desk)
    desk.read(CAROL)
    desk.read(ALICE)
    done = force(desk, ALICE, BOB, CAROL, recorded=RECORDED)
    said = [b"\x00{ht:client:a", b"", b"\x00{ht:client:a", b"\x00{ht:waits:c"]
    assert done[5:] == [ALICE, CAROL, said]
    assert told(desk) == said
    assert force(desk, ALICE, BOB, CAROL, recorded=RECORDED) == done
    assert records(desk) == 1


def test_a_server_out_of_memory_reads_the_records_too(desk: Desk) -> None:
    write_records(desk)
    desk.attempt(BOB)
    with out_of_memory(desk):
        assert force(desk, BOB, recorded=RECORDED[2:4])[5:] == [BOB, [b"\x00{ht:client:b", b""]]
    assert told(desk) == [b"\x00{ht:client:b", b""]


def test_as_many_holders_as_an_order_names_are_told_of(desk: Desk) -> None:
    owners = [b"%024d" % number for number in range(LISTED)]
    for owner in owners:
        desk.read(owner)
    keys = tuple(b"ht:%s:%d" % (word, number) for number in range(LISTED) for word in (b"client", b"waits"))
    for number, key in enumerate(keys):
        desk.wire.call("SET", key, number)
    said = [b"%d" % number for number in range(2 * LISTED)]
    assert force(desk, *owners, recorded=keys)[5:] == [*owners, said]
    assert told(desk) == said
