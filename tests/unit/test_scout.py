"""What the scout believes of the Sentinels' answers."""

from __future__ import annotations

import select
import socket
from typing import Any

import hiredis
import pytest

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.config.targets import Address, Sentinel
from holdtight.stores.redis import scout
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.scout import Scout
from holdtight.stores.redis.watched_sentinel import Master

A, B = ("10.0.0.1", 6379), ("10.0.0.2", 6379)


class Scene:
    """A scout without its thread and its connections: the test gives the Sentinels' answers."""

    def __init__(self, count: int = 3) -> None:
        self.switches: list[tuple[Master, Master]] = []
        addresses = tuple(Address(f"s{number}", 26379) for number in range(count))
        target = Sentinel(addresses, "mymaster", Address("", 0))
        self.scout: Any = Scout(target, self._connect, self._switched, lambda: None, lambda: True)

    def _connect(self, address: Address, timeout: float) -> Any:
        raise AssertionError("nothing connects here")

    def _switched(self, old: Master, new: Master) -> None:
        self.switches.append((old, new))

    def says(self, number: int, where: tuple[str, int], epoch: int) -> None:
        state = {b"config-epoch": str(epoch).encode()}
        each = self.scout._sentinels[number]
        self.scout._answered(each, boottime(), state, [where[0].encode(), str(where[1]).encode()])

    def round(self, *answers: tuple[tuple[str, int], int]) -> None:
        for number, (where, epoch) in enumerate(answers):
            self.says(number, where, epoch)
        self.scout._round += 1
        self.scout._end_round(boottime())

    @property
    def master(self) -> Master:
        found: Master = self.scout.master
        return found


def test_the_highest_epoch_counts_and_the_first_answer_alone_decides_nothing() -> None:
    scene = Scene()
    scene.round((A, 1), (B, 2), (A, 1))
    assert scene.master == Master(*B, 2)
    assert scene.switches == []


def test_of_the_same_epoch_the_majority_counts() -> None:
    scene = Scene()
    scene.round((A, 0), (B, 0), (B, 0))
    assert scene.master.where == B


def test_one_sentinel_is_enough_to_tell_of_a_failover() -> None:
    scene = Scene()
    scene.round((A, 1), (A, 1), (A, 1))
    scene.says(2, B, 2)
    assert scene.switches == [(Master(*A, 1), Master(*B, 2))]


def test_a_majority_that_has_not_heard_of_the_failover_yet_is_not_believed() -> None:
    scene = Scene()
    scene.round((A, 1), (A, 1), (A, 1))
    scene.says(2, B, 2)
    for _ in range(3):
        scene.says(0, A, 1)
        scene.says(1, A, 1)
        scene.says(2, B, 2)
    assert scene.master.where == B
    assert len(scene.switches) == 1


def test_a_lower_epoch_is_believed_from_a_majority_that_nobody_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after SENTINEL RESET, or when the Sentinels were set up anew."""
    scene = Scene()
    scene.round((A, 7), (A, 7), (A, 7))
    scene.says(0, B, 0)
    scene.says(1, B, 0)
    assert scene.master.where == A, "one Sentinel has confirmed it a moment ago"
    later = boottime() + scout.FRESH_SECONDS + 1
    monkeypatch.setattr(scout, "boottime", lambda: later)
    scene.says(0, B, 0)
    assert scene.master.where == A, "one alone is no majority"
    scene.says(1, B, 0)
    assert scene.master == Master(*B, 0)


def test_a_higher_epoch_of_the_same_master_is_no_switch() -> None:
    scene = Scene()
    scene.round((A, 1), (A, 1), (A, 1))
    scene.says(0, A, 2)
    assert scene.master.epoch == 2
    assert scene.switches == []


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ("ERR No such master with that name", LinkDown, "no Sentinel knows a service called 'mymaster'"),
        (
            "NOPERM no permissions to run the 'sentinel|master' command",
            ServerSaid,
            "Sentinel s0:26379: NO",
        ),
    ],
)
def test_a_round_without_an_answer_says_why(said: str, error: type[Exception], text: str) -> None:
    scene = Scene()
    for each in scene.scout._sentinels:
        scene.scout._answered(each, boottime(), hiredis.ReplyError(said), None)
    scene.scout._round += 1
    scene.scout._end_round(boottime())
    assert isinstance(scene.scout._error, error)
    assert str(scene.scout._error).startswith(text)


def test_a_connection_that_is_made_as_the_thread_ends_is_closed() -> None:
    scene = Scene()
    scene.scout._in_use = lambda: False
    scene.scout._pipe.open()
    ours, sentinels = socket.socketpair()
    sentinels.close()
    link = SocketLink(ours)
    # As from the thread that connects, between the last turn of the scout's thread and its look whether to end.
    scene.scout._requested.append(lambda: scene.scout._connected(scene.scout._sentinels[0], link, None))
    while not scene.scout._is_over():
        scene.scout._turn(select.poll())
    assert link.fd == -1


def test_a_sentinel_that_stays_away_is_tried_every_other_second_for_ever() -> None:
    scene = Scene()
    each = scene.scout._sentinels[0]
    each.failures = 5000
    scene.scout._lost(each, LinkDown("refused", sent=False))
    assert each.connect_at - boottime() == pytest.approx(scout.LONGEST_RECONNECT_PAUSE, abs=1)
