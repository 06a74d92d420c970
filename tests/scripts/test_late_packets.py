"""The late-packet matrix: a request that was given up and arrives later breaks no promise, whatever came in between.

A history is how an owner comes to hold a name (START), what it and others do then (MIDDLE), how it ends (END), and
what the next holder does (NEXT). In each cell the client gives requests up, and they arrive later: after each verb that
follows, and after all. After each verb, and after each arrival, `World.check` checks: a holder never believes in more
time than the server keeps, no owner holds beside a writer, and every waiter in line has a client behind it. In the end
nothing is left but bookkeeping. The same on a real server and on the memory store.

The clients here give up because no answer comes. A connection that is reset makes no other cell: the server gets the
same bytes, and the plans do the same, but sooner. tests/faults/test_late_packets.py plays both.

What cannot happen has no cell: an owner is used for one acquisition, so that nothing of its own follows a release, a
withdrawal or a detachment; only a writer downgrades, and is detached; a waiter does not renew. Votes are in
test_late_votes.py; what real connections do is in tests/faults/test_late_packets.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeAlias

import pytest

from tests.scripts.late import PERMITS, Owner, World, take_several
from tests.scripts.late_stores import Backend, MemoryBackend, ServerBackend
from tests.support.servers import StartServer

Verb: TypeAlias = Callable[["History", int], None]
"""Gets the number of its first requests that are held back."""


class History:
    def __init__(self, world: World, kind: str) -> None:
        self.world = world
        self.one = world.owner(kind)
        self.others: list[Owner] = []

    def other(self, kind: str) -> Owner:
        self.others.append(self.world.owner(kind))
        return self.others[-1]


# How an owner comes to hold it. Kind first.


def asks(history: History, lost: int) -> None:
    history.one.ask(lost)


def asks_behind(kind: str) -> Verb:
    def waits_in_line(history: History, lost: int) -> None:
        history.other(kind).ask()
        history.one.ask(lost)

    return waits_in_line


def is_handed_it(history: History, lost: int) -> None:
    """And confirms."""
    for each in history.others:
        each.release()
    history.one.look_again(lost)


# What happens then.


def renews(history: History, lost: int) -> None:
    history.one.renew(lost)


def lengthens(history: History, lost: int) -> None:
    history.one.renew_to(60.0, lost)


def shortens(history: History, lost: int) -> None:
    history.one.renew_to(0.5, lost)


def downgrades(history: History, lost: int) -> None:
    history.one.downgrade(lost)


def is_never_heard_downgrading(history: History, lost: int) -> None:
    history.one.downgrade(3 * lost)


def touches(history: History, lost: int) -> None:
    history.one.touch(lost)


def another_wants_it(history: History, lost: int) -> None:
    history.other("p" if history.one.mode == "p" else "x").ask(lost)


def another_reads(history: History, lost: int) -> None:
    if history.one.mode != "p":
        history.other("r").ask(lost)


def all_look(history: History, lost: int) -> None:
    for each in history.others:
        each.look_again(lost)


def another_gives_up(history: History, lost: int) -> None:
    for each in history.others:
        each.give_up(lost)


def time_passes(history: History, lost: int) -> None:
    history.world.pass_time(0.6)


# How it ends.


def releases(history: History, lost: int) -> None:
    history.one.release(lost)


def is_never_heard_releasing(history: History, lost: int) -> None:
    history.one.release(2 * lost)


def gives_up(history: History, lost: int) -> None:
    history.one.give_up(lost)


def detaches(history: History, lost: int) -> None:
    heir = history.one.detach(2.0, lost)
    if heir is not None:
        history.others.append(heir)
        heir.adopt(history.one)


def is_adopted(history: History, lost: int) -> None:
    heir = history.one.detach(2.0)
    if heir is not None:
        history.others.append(heir)
        heir.adopt(history.one, lost)
        heir.renew()


def is_adopted_by_one_who_gives_up(history: History, lost: int) -> None:
    heir = history.one.detach(2.0)
    if heir is not None:
        history.others.append(heir)
        heir.adopt(history.one, 3 * lost)


def is_adopted_and_handed_on(history: History, lost: int) -> None:
    heir = history.one.detach(2.0)
    if heir is not None:
        heir.adopt(history.one)
        heir.renew_to(0.5)
        history.others += [heir]
        another_wants_it(history, lost)
        heir.release()


# What the next holder does, before something of the first arrives.


def another_takes_it(history: History, lost: int) -> None:
    another_wants_it(history, lost)
    all_look(history, 0)


def the_others_renew(history: History, lost: int) -> None:
    for each in history.others:
        each.renew(lost)


def the_others_release(history: History, lost: int) -> None:
    for each in history.others:
        each.release(lost)


STARTS: list[tuple[str, list[Verb]]] = [
    ("x", [asks]),
    ("r", [asks]),
    ("p", [asks]),
    ("x", [asks_behind("x"), is_handed_it]),
    ("r", [asks_behind("x"), is_handed_it]),
    ("x", [asks_behind("r"), is_handed_it]),
]
MIDDLE: list[Verb] = [
    renews,
    lengthens,
    shortens,
    downgrades,
    is_never_heard_downgrading,
    another_wants_it,
    another_reads,
    all_look,
    another_gives_up,
    time_passes,
]
ENDS: list[list[Verb]] = [
    [releases],
    [is_never_heard_releasing],
    [detaches],
    [is_adopted],
    [is_adopted_by_one_who_gives_up],
    [is_adopted_and_handed_on],
    [],
]
IN_LINE: list[list[Verb]] = [[touches], [touches, is_handed_it], [gives_up], [all_look, gives_up]]


GOING = ENDS[:3]
NEXT: list[list[Verb]] = [
    [another_takes_it],
    [another_takes_it, the_others_renew],
    [another_takes_it, the_others_release],
    [another_takes_it, the_others_release, another_takes_it],
]


def handed_on() -> Iterator[tuple[str, list[Verb]]]:
    for (kind, start), middle, end, then in itertools.product(STARTS, [[], [renews], [shortens]], GOING, NEXT):
        yield kind, [*start, *middle, *end, *then]
    for (kind, start), then in itertools.product(STARTS[3:], NEXT):
        yield kind, [start[0], gives_up, the_others_release, *then]


def histories(middles: list[list[Verb]]) -> Iterator[tuple[str, list[Verb]]]:
    for (kind, start), middle, end in itertools.product(STARTS, middles, ENDS):
        yield kind, [*start, *middle, *end]
    for (kind, start), first, then in itertools.product(STARTS[3:], IN_LINE, middles):
        if len(then) < 2:
            yield kind, [start[0], *first, *then]


ONE = list(histories([[], *([verb] for verb in MIDDLE)]))
HANDED_ON = list(handed_on())
TWO = list(histories(list(map(list, itertools.permutations(MIDDLE, 2)))))


def play(world: World, kind: str, verbs: list[Verb], late: tuple[int, ...], arrives: int) -> bool:
    """The first requests of the verbs `late` are kept back, and arrive after verb `arrives`, in the order in which they
    were sent and then, of two, the other way round. False if nothing was held back."""
    history = History(world, kind)
    for at, verb in enumerate(verbs):
        before = len(world.held)
        verb(history, int(at in late))
        world.check()
        if at in late and len(world.held) == before:
            return False
        if at == arrives:
            for which in range(len(world.held))[:: 1 if late[0] <= late[-1] else -1]:
                world.deliver(which)
                world.check()
    world.everybody_goes()
    return True


def play_all(backend: Backend, those: list[tuple[str, list[Verb]]], *, pairs: bool) -> None:
    """With one late request, and if `pairs` with two."""
    cells, broken = 0, dict[str, str]()
    for kind, verbs in those:
        places = range(len(verbs))
        lates: list[tuple[int, ...]] = [(at,) for at in places]
        lates += itertools.permutations(places, 2) if pairs else []
        for late in lates:
            for arrives in range(max(late), len(verbs)):
                world = World(backend)
                try:
                    if not play(world, kind, verbs, late, arrives):
                        break
                except AssertionError as error:
                    told = [verb.__name__ for verb in verbs]
                    broken[f"{kind}: {told}, {late} late, after {arrives}"] = str(error).split("\n")[0]
                finally:
                    world.end()
                cells += 1
    shown = "\n".join(f"{cell}\n    {why}" for cell, why in itertools.islice(broken.items(), 10))
    assert not broken, f"{len(broken)} of {cells} cells, among them:\n{shown}"
    assert cells > 100, "or this shows nothing"


@pytest.fixture(params=["server", "memory"])
def backend(request: pytest.FixtureRequest, start_server: StartServer) -> Iterator[Backend]:
    made = MemoryBackend() if request.param == "memory" else ServerBackend(start_server())
    with closing(made):
        yield made


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 3))])
def test_nothing_that_comes_late_breaks_a_promise(backend: Backend, part: int) -> None:
    play_all(backend, ONE[part::4], pairs=False)


@pytest.mark.parametrize("part", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2, 3))])
def test_nor_does_it_once_another_has_it(backend: Backend, part: int) -> None:
    play_all(backend, HANDED_ON[part::4], pairs=False)


def test_nor_does_it_after_two_verbs_or_if_two_come_late(backend: Backend) -> None:
    """A sample of all histories; the rest is below."""
    play_all(backend, TWO[::97], pairs=False)
    play_all(backend, ONE[::61], pairs=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_not_one_of_all_histories_breaks_a_promise(backend: Backend, part: int) -> None:
    play_all(backend, [*ONE, *TWO][part::16], pairs=True)


NAMES = ["a", "b"]


@pytest.mark.parametrize("kinds", ["xx", "rr", "pp", "xr", "rp"])
@pytest.mark.parametrize("follows", ["nothing", "one takes the first", "all are taken", "one waits for the second"])
def test_a_late_request_for_several_takes_nothing(backend: Backend, follows: str, kinds: str) -> None:
    world = World(backend)
    assert take_several(world, NAMES, kinds, lost=1) == []
    world.check()
    against = ["p" if kind == "p" else "x" for kind in kinds]
    if follows == "one takes the first":
        world.owner(against[0], name="a").ask()
    elif follows == "all are taken":
        for name, kind in zip(NAMES, against, strict=True):
            world.owner(kind, name=name).ask()
    elif follows == "one waits for the second":
        for _ in range(PERMITS + 1 if against[1] == "p" else 2):
            world.owner(against[1], name="b").ask()
        assert world.owners[-1].waits
    world.deliver(0)
    world.check()
    for name in NAMES:
        holding, _ = world.look(name)
        assert len(holding) == sum(each.name == name and each.holds for each in world.owners)
    world.everybody_goes()


@pytest.mark.parametrize("kinds", ["xx", "rr", "pp", "xr", "rp"])
def test_a_request_for_several_that_is_answered_takes_all(backend: Backend, kinds: str) -> None:
    """So that the test above would see what a late one takes."""
    world = World(backend)
    taken = take_several(world, NAMES, kinds)
    assert [each.mode for each in taken] == list(kinds)
    world.check()
    assert all(each.id in world.look(each.name)[0] for each in taken)
    world.everybody_goes()
