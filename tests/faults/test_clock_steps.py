"""The clock of a running server is stepped, a minute or an hour, ahead and back: fences still rise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.clients import OpenClient, release_lost, start, waiting
from tests.faults.clocks import Clock, server_time, start_stepped, step
from tests.support.processes import wait_for
from tests.support.servers import DEBIAN_REDIS, VALKEY_9, Flavour, RunningServer, StartServer

HOUR, MINUTE = 3600.0, 60.0


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    with closing(Clock(tmp_path / "offset")) as clock:
        yield clock


@pytest.fixture(params=[VALKEY_9, DEBIAN_REDIS], ids=repr)
def stepped_server(
    request: pytest.FixtureRequest,
    start_server: StartServer,
    shim: Path,
    clock: Clock,
    tmp_path: Path,
) -> RunningServer:
    """A server whose wall clock is `clock`'s."""
    flavour: Flavour = request.param
    server = start_stepped(start_server, shim, tmp_path / "offset", flavour=flavour)
    before = server_time(server)
    clock.step_to(HOUR)
    try:
        wait_for(lambda: server_time(server) > before + HOUR / 2, within=2)
    except AssertionError:
        pytest.skip(f"needs a {flavour} that takes its time from the C library: the clock shim does not reach it")
    step(server, clock, 0)
    return server


def rising(fences: list[int]) -> bool:
    return fences == sorted(set(fences))


def test_fences_rise_over_a_step_ahead_and_back(
    stepped_server: RunningServer, clock: Clock, open_client: OpenClient
) -> None:
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    fences: list[int] = []

    def take(name: str = "a") -> None:
        for each in (client, other):
            lease = each.acquire(name, ttl=5, wait=2)
            fences.append(lease.fence)
            each.release(lease)

    for offset in (0, HOUR, 0, HOUR, -HOUR, 0):
        step(stepped_server, clock, offset)
        take()
    assert rising(fences)
    assert len(fences) == 12


def test_fences_rise_when_the_holder_crashes_after_the_step_back(
    stepped_server: RunningServer, clock: Clock, open_client: OpenClient
) -> None:
    """Without a release no tombstone is written, and still the server remembers the fence of the future."""
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    step(stepped_server, clock, HOUR)
    first = client.acquire("a", ttl=5)
    client.release(first)
    step(stepped_server, clock, 0)
    crashed = client.acquire("a", ttl=0.3, renew=False, wait=2)
    assert crashed.fence > first.fence
    wait_for(lambda: crashed.lost)
    after = other.acquire("a", wait=2)
    assert after.fence > crashed.fence
    other.release(after)
    release_lost(client, crashed)


def test_fences_rise_when_the_holder_crashed_in_the_future(
    stepped_server: RunningServer, clock: Clock, open_client: OpenClient
) -> None:
    """It held the lock across the step back, and its grant is not renewed any more."""
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    step(stepped_server, clock, HOUR)
    crashed = client.acquire("a", ttl=1)
    step(stepped_server, clock, 0)
    # After one renewal at the old time it ends by its ttl again, instead of an hour later.
    wait_for(lambda: int(stepped_server.command("PTTL", "ht:{a}")) < 20_000)
    crashed.tenure.ended = True  # the process has died, so nothing renews
    after = other.acquire("a", wait=10)
    assert after.fence > crashed.fence
    other.release(after)


def test_the_line_moves_on_over_a_step(stepped_server: RunningServer, clock: Clock, open_client: OpenClient) -> None:
    """A step ahead ends the lease on the server, and the waiter gets it; a step back delays no waiter."""
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    held = client.acquire("a", ttl=3)
    waiter = start(lambda: other.acquire("a", ttl=3))
    wait_for(lambda: waiting(stepped_server, "a") == 1)
    step(stepped_server, clock, HOUR)
    wait_for(lambda: held.lost)
    second = waiter.result(10)
    assert second.fence > held.fence
    waiter = start(lambda: client.acquire("a", ttl=3))
    wait_for(lambda: waiting(stepped_server, "a") >= 1)
    step(stepped_server, clock, 0)
    other.release(second)
    third = waiter.result(10)
    assert third.fence > second.fence
    client.release(third)


def test_a_step_ahead_grants_twice_for_a_moment_and_the_fence_rises(
    stepped_server: RunningServer, clock: Clock, open_client: OpenClient
) -> None:
    """Counts what one server cannot prevent: after a step ahead every ttl is over. The first holder learns of it with
    its next renewal; a resource that checks fences refuses it as soon as the second holder has written."""
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    held = client.acquire("a", ttl=6)
    assert other.try_acquire("a") is None
    step(stepped_server, clock, MINUTE)
    second = other.acquire("a", ttl=6, wait=2)
    twice = not held.lost
    assert second.fence > held.fence
    wait_for(lambda: held.lost, within=6)
    assert twice, "the step took the lock away from nobody: then this test shows nothing"
    release_lost(client, held)
    other.release(second)


def test_a_step_back_grants_nothing_twice(stepped_server: RunningServer, clock: Clock, open_client: OpenClient) -> None:
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    held = client.acquire("a", ttl=3)
    step(stepped_server, clock, -MINUTE)
    tries = 0
    started = time.monotonic()
    while time.monotonic() < started + 4:  # longer than its ttl: it is renewed
        assert other.try_acquire("a") is None
        tries += 1
        time.sleep(0.005)
    assert tries > 5
    assert not held.lost
    client.release(held)
    second = other.acquire("a", wait=2)
    assert second.fence > held.fence
    other.release(second)
