"""The clocks of running nodes are stepped a minute ahead and back, under leases on all five and on a bare majority.

A node whose clock jumps ahead forgets its votes; one whose clock jumps back keeps them for longer. So a lease
survives as many jumps ahead as it has votes beyond the majority, and any number of jumps back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from holdtight import LossReason, QuorumNotReached
from holdtight.grants.lease import BaseLease
from tests.faults.clients import Client, OpenClient, release_lost
from tests.faults.clocks import Clock, server_time, start_stepped, step
from tests.faults.quorum import Nodes, Side, votes_of
from tests.support.processes import wait_for
from tests.support.servers import StartServer

MINUTE = 60.0
NOT_TOO_FAR = 7.0
"""A node that is more than 8 s ahead of the others gives no new votes."""


class SteppedNodes(Nodes):
    def __init__(self, start_server: StartServer, shim: Path, folder: Path, stack: ExitStack) -> None:
        self.clocks = [stack.enter_context(closing(Clock(folder / f"offset-{number}"))) for number in range(5)]
        super().__init__(
            [start_stepped(start_server, shim, folder / f"offset-{number}") for number in range(len(self.clocks))]
        )

    def step(self, index: int, offset: float) -> None:
        step(self.servers[index], self.clocks[index], offset)


@pytest.fixture
def nodes(start_server: StartServer, shim: Path, tmp_path: Path) -> Iterator[SteppedNodes]:
    with ExitStack() as stack:
        nodes = SteppedNodes(start_server, shim, tmp_path, stack)
        before = server_time(nodes.servers[0])
        nodes.clocks[0].step_to(MINUTE)
        try:
            wait_for(lambda: server_time(nodes.servers[0]) > before + MINUTE / 2, within=2)
        except AssertionError:
            pytest.skip("needs a server that takes its time from the C library: the clock shim does not reach it")
        nodes.step(0, 0)
        nodes.bless()
        yield nodes


def has_all(nodes: Nodes, lease: BaseLease) -> bool:
    """Waits until all five have voted for it, also those whose answers the client did not wait for."""
    return votes_of(nodes, lease.name) == [lease.tenure.owner] * 5


def take_on_all(client: Client, nodes: Nodes, **options: Any) -> BaseLease:
    """A client's first requests go to the nodes that it has reached so far: repeats until it has reached all."""

    def take() -> BaseLease | None:
        lease = client.acquire("a", **options)
        settled = time.monotonic() + 0.2
        while not has_all(nodes, lease):
            if time.monotonic() > settled:
                client.release(lease)
                return None
        return lease

    found: BaseLease = wait_for(take)
    return found


PAUSE = 0.005
"""Between two tries, so that twenty processes of other tests get on."""


def granted_twice(other: Client, held: BaseLease, until: Callable[[], bool]) -> int:
    """How often another owner gets the lock while its holder rightly believes that it holds.

    A busy machine may be too slow for an answer of a majority: such a try counts for nothing."""
    count = tries = 0
    while not until():
        try:
            second = other.try_acquire(held.name, ttl=3)
        except QuorumNotReached:
            continue
        tries += 1
        time.sleep(PAUSE)
        if second is not None:
            count += not held.lost
            other.release(second)
    assert tries > 3
    return count


@pytest.mark.parametrize("offset", [MINUTE, -MINUTE], ids=["ahead", "back"])
@pytest.mark.parametrize("stepped", [1, 2])
def test_a_lease_on_all_five_stands_steps_of_two_until_its_ttl_ends(
    nodes: SteppedNodes, open_client: OpenClient, stepped: int, offset: float
) -> None:
    client, other = open_client(nodes.urls), open_client(nodes.urls)
    held = take_on_all(client, nodes, ttl=3, renew=False)
    for index in range(stepped):
        nodes.step(index, offset)
    assert granted_twice(other, held, lambda: held.lost) == 0
    after = other.acquire("a", wait=5)
    assert after.fence > held.fence
    other.release(after)
    release_lost(client, held)


@pytest.mark.parametrize("offset", [MINUTE, -MINUTE], ids=["ahead", "back"])
def test_a_lease_that_is_renewed_is_healed_and_stands_one_step_after_the_other(
    nodes: SteppedNodes, open_client: OpenClient, offset: float
) -> None:
    """All five clocks jump, two at a time at the most: between the jumps, renewal brings the lost votes back.

    The votes that the holder knows of count: five after a renewal, perhaps three before."""
    client, other = open_client(nodes.urls), open_client(nodes.urls)
    held = take_on_all(client, nodes, ttl=3)
    wait_for(lambda: len(held.nodes) == 5)
    for pair in ((0, 1), (2, 3), (4,)):
        for index in pair:
            nodes.step(index, offset)
        until = time.monotonic() + 1.5
        assert granted_twice(other, held, lambda: time.monotonic() > until) == 0  # noqa: B023
        wait_for(lambda: held.lost or (has_all(nodes, held) and len(held.nodes) == 5))
        assert held.reason is None
    assert not held.lost
    client.release(held)
    after = other.acquire("a", wait=5)
    assert after.fence > held.fence
    other.release(after)


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "not renewed"])
def test_a_lease_on_a_bare_majority_does_not_stand_a_step_ahead_and_the_fence_rises(
    nodes: SteppedNodes, open_client: OpenClient, renew: bool
) -> None:
    """Counts what is not promised. A renewed holder learns of it with its next renewal; one that is not renewed, when
    its ttl ends. A resource that checks fences refuses it as soon as the second holder has written."""
    with Side(nodes) as side:
        side.cut_off([3, 4], silently=False)
        client, other = open_client(side.urls), open_client(nodes.urls)
        held = client.acquire("a", ttl=6, renew=renew)
        assert len([vote for vote in votes_of(nodes, "a") if vote]) == 3
        assert other.try_acquire("a") is None
        nodes.step(0, NOT_TOO_FAR)
        second = other.acquire("a", ttl=6, wait=3)
        twice = not held.lost
        assert second.fence > held.fence
        wait_for(lambda: held.lost, within=8)
        assert twice, "the step took the lock away from nobody: then this test shows nothing"
        assert held.reason is (LossReason.TAKEN if renew else LossReason.EXPIRED)
        release_lost(client, held)
        assert not second.lost
        other.release(second)


def test_a_lease_on_a_bare_majority_stands_steps_back(nodes: SteppedNodes, open_client: OpenClient) -> None:
    """Nodes keep its votes for a minute longer. The next owner needs a majority of the other nodes until then."""
    with Side(nodes) as side:
        side.cut_off([3, 4], silently=False)
        client, other = open_client(side.urls), open_client(nodes.urls)
        held = client.acquire("a", ttl=3, renew=False)
        for index in (0, 1):
            nodes.step(index, -MINUTE)
        assert granted_twice(other, held, lambda: held.lost) == 0
        after = other.acquire("a", wait=5)
        assert after.fence > held.fence
        assert len(votes_of(nodes, "a")) - votes_of(nodes, "a").count(after.tenure.owner) == 2
        other.release(after)
        release_lost(client, held)
