"""What the place of a cluster does with what its scout learns."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from holdtight import Locks
from holdtight.base.plan import LinkDown
from holdtight.stores.redis.cluster import ClusterPlace
from holdtight.stores.redis.cluster_scout import THREAD_NAME
from holdtight.stores.redis.slots import SLOTS, Endpoint
from tests.support.processes import wait_for

OLD, NEW = ("127.0.0.1", 7001), ("127.0.0.1", 7002)


class Pausing:
    nudged = 0

    def nudge(self) -> None:
        self.nudged += 1


def learn(place: ClusterPlace, where: Endpoint, *others: Endpoint) -> None:
    place.learn([where] * SLOTS, {where, *others}, asked=float("inf"))


def test_those_that_pause_at_a_dead_server_are_woken_when_another_has_its_slots() -> None:
    """Also if the cluster does not name the dead one any more."""
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, OLD, NEW)
        waiter = Pausing()
        place.at(0).pausing.add(waiter)
        learn(place, NEW)
        assert waiter.nudged
        assert place.at(0).where == NEW


def test_the_scout_runs_while_a_connection_to_a_server_that_hangs_is_made() -> None:
    """Nobody else would learn that another server has its slots."""
    with Locks("redis+cluster://127.0.0.1:1") as locks, socket.create_server(("127.0.0.1", 0)) as silent:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, silent.getsockname())
        before = set(threading.enumerate())

        def connect() -> None:
            with suppress(LinkDown):
                place.at(0).open(30)

        connecting = threading.Thread(target=connect)
        connecting.start()
        try:
            wait_for(
                lambda: any(each.name == THREAD_NAME for each in set(threading.enumerate()) - before),
                within=10,
                what="the scout",
            )
            assert connecting.is_alive()
        finally:
            learn(place, NEW)  # ends the attempt
            connecting.join(10)
        assert not connecting.is_alive()
