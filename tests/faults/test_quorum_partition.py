"""Five nodes, cut into two and three, with a client on either side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdtight import LockTimeout, QuorumNotReached
from holdtight.grants.lease import BaseLease
from tests.faults.clients import Client, OpenClient, release_lost
from tests.faults.quorum import Nodes, Side, of_available_nodes
from tests.support.processes import wait_for

TTL = 2.0
FEW, MANY = (0, 1), (2, 3, 4)


@pytest.fixture
def sides(nodes: Nodes) -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        yield stack.enter_context(Side(nodes)), stack.enter_context(Side(nodes))


def part(sides: tuple[Side, Side], *, silently: bool) -> None:
    """The first side keeps two nodes, the second three."""
    few, many = sides
    few.cut_off(MANY, silently=silently)
    many.cut_off(FEW, silently=silently)


def grants_on_both_sides(one: Client, other: Client) -> list[BaseLease]:
    """The grants of both sides within two seconds: one harness for the right majority and for the wrong one."""
    granted: list[BaseLease] = []
    for client in (one, other):
        try:
            granted.append(client.acquire("a", wait=2, ttl=30))
        except QuorumNotReached:
            pass
    return granted


@pytest.mark.parametrize("silently", [False, True], ids=["refused", "black hole"])
def test_only_the_side_with_the_majority_gets_the_lock(
    sides: tuple[Side, Side], open_client: OpenClient, silently: bool
) -> None:
    one, other = open_client(sides[0].urls), open_client(sides[1].urls)
    part(sides, silently=silently)
    (lease,) = grants_on_both_sides(one, other)
    assert set(lease.nodes) == {sides[1].urls[index] for index in MANY}
    other.release(lease)


def test_a_quorum_of_available_nodes_grants_to_both_sides(sides: tuple[Side, Side], open_client: OpenClient) -> None:
    """The same harness, with the majority counted among the nodes that each side can reach: why we do not do that."""
    one, other = open_client(sides[0].urls), open_client(sides[1].urls)
    part(sides, silently=False)
    of_available_nodes(one, len(FEW))
    of_available_nodes(other, len(MANY))
    granted = grants_on_both_sides(one, other)
    assert len(granted) == 2, "both hold the same lock at the same time"
    assert not any(lease.lost for lease in granted)
    for client, lease in zip((one, other), granted, strict=True):
        client.release(lease)


def test_after_the_healing_every_lock_can_be_had_within_two_ttl_and_a_second(
    sides: tuple[Side, Side], open_client: OpenClient
) -> None:
    one, other = open_client(sides[0].urls, ttl=TTL), open_client(sides[1].urls, ttl=TTL)
    held = {name: one.acquire(name) for name in ("a", "b", "c")}
    part(sides, silently=True)
    taken = other.acquire("a", wait=10)
    assert held["a"].lost, "the holder knows before another has it"
    assert taken.fence > held["a"].fence
    wait_for(lambda: all(lease.lost for lease in held.values()))
    for lease in held.values():
        release_lost(one, lease)
    other.release(taken)
    for side in sides:
        side.heal()
    started = time.monotonic()
    for client in (one, other):
        for name in held:
            client.release(client.acquire(name, wait=10))
    assert time.monotonic() - started < 2 * TTL + 1


def test_a_holder_on_the_side_of_the_majority_goes_on(sides: tuple[Side, Side], open_client: OpenClient) -> None:
    one, other = open_client(sides[0].urls, ttl=TTL), open_client(sides[1].urls, ttl=TTL)
    lease = other.acquire("a")
    part(sides, silently=True)
    with pytest.raises(QuorumNotReached):
        one.acquire("a", wait=3 * TTL)
    assert not lease.lost
    assert lease.remaining() > 0
    for side in sides:
        side.heal()
    with pytest.raises(LockTimeout):
        one.acquire("a", wait=2)
    other.release(lease)
