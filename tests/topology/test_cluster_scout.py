"""The scout of a cluster goes on as long as something is in doubt and somebody needs to know."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from holdtight import Locks
from holdtight.base.plan import LinkDown
from tests.faults.clients import start
from tests.support.clusters import Cluster
from tests.support.processes import wait_for


def test_it_goes_on_in_doubt_when_a_caller_connects_again() -> None:
    """Between two attempts to connect to a server that hangs nothing is connected, and the scout may end. The next
    attempt would last as long as connect_timeout if nobody learned that the server has been replaced."""
    with socket.create_server(("127.0.0.1", 0)) as hung:  # it accepts connections and never answers
        where: Any = hung.getsockname()
        with Locks("redis+cluster://{}:{}".format(*where), connect_timeout=30) as locks:
            place: Any = locks.place
            node, scout = place.node(where), place.scout
            scout.doubt()
            wait_for(lambda: scout._thread is None, what="the scout to end while nothing is in use")
            caller = start(lambda: node.open(30))
            wait_for(lambda: scout._thread is not None, what="the scout to go on")
            node.leave_server()
            with pytest.raises(LinkDown):
                caller.result(10)
        wait_for(lambda: scout._thread is None, what="the scout to end with its client")


def test_a_doubt_that_arises_in_a_round_is_followed_by_another_round(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be replaced just after it has answered that round."""
    rounds = list[float]()
    with Locks(cluster.url) as locks, locks.lock("a"):
        place: Any = locks.place
        learn = place.learn
        wait_for(lambda: not place.scout._in_doubt, what="the scout to know all")

        def doubt_once(table: Any, nodes: Any, asked: float) -> None:
            rounds.append(asked)
            learn(table, nodes, asked)
            if len(rounds) == 1:
                place.scout.doubt()

        monkeypatch.setattr(place, "learn", doubt_once)
        place.scout.doubt()
        wait_for(lambda: len(rounds) > 1, within=20, what="a second round; the next would come after 30 s")
