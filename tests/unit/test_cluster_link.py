"""A bell that has arrived is heard, also by a park whose time has come."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from holdtight.base.clock import boottime
from holdtight.base.plan import Bell, LinkDown
from holdtight.stores.redis.cluster_link import ClusterLink

OWNER = b"o" * 24


def bell(owner: bytes) -> bytes:
    return b">3\r\n$8\r\nsmessage\r\n$7\r\nchannel\r\n$25\r\nr" + owner + b"\r\n"


@pytest.fixture
def ends() -> Iterator[tuple[ClusterLink, socket.socket]]:
    ours, theirs = socket.socketpair()
    link = ClusterLink(ours)
    link.set_timeout(30.0)
    yield link, theirs
    link.close()
    theirs.close()


def test_a_bell_that_is_there_is_heard(ends: tuple[ClusterLink, socket.socket]) -> None:
    link, server = ends
    server.sendall(bell(b"x" * 24) + bell(OWNER))
    assert link.park(OWNER, boottime() - 1) == Bell()


def test_without_a_bell_nothing_is_waited_for(ends: tuple[ClusterLink, socket.socket]) -> None:
    link, server = ends
    begun = boottime()
    assert link.park(OWNER, begun) is None
    server.sendall(bell(b"x" * 24))
    assert link.park(OWNER, begun) is None
    assert boottime() - begun < 5


def test_the_end_of_the_connection_is_noticed(ends: tuple[ClusterLink, socket.socket]) -> None:
    link, server = ends
    server.close()
    with pytest.raises(LinkDown):
        link.park(OWNER, boottime())
    link.close()
    assert link.park(OWNER, boottime()) is None
