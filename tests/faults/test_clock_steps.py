"""The server's clock is stepped an hour ahead and back, under a running server: fences still rise."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.clients import OpenClient, release_lost, start, waiting
from tests.support.processes import wait_for
from tests.support.servers import DEBIAN_REDIS, VALKEY_9, Flavour, RunningServer, StartServer

HOUR = 3600.0


class Clock:
    """The wall clock of one server."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)

    def step_to(self, offset: float) -> None:
        self._shared[:] = struct.pack("q", int(offset * 1e9))

    def close(self) -> None:
        self._shared.close()


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (cc) to build the clock shim")
    library = tmp_path_factory.mktemp("clockshim") / "clockshim.so"
    source = Path(__file__).with_name("clockshim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


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
    monkeypatch: pytest.MonkeyPatch,
) -> RunningServer:
    """A server whose wall clock is `clock`'s."""
    flavour: Flavour = request.param
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("CLOCKSHIM_FILE", str(tmp_path / "offset"))
    server = start_server(flavour=flavour)
    monkeypatch.undo()
    before = server_time(server)
    clock.step_to(HOUR)
    try:
        wait_for(lambda: server_time(server) > before + HOUR / 2, within=2)
    except AssertionError:
        pytest.skip(f"needs a {flavour} that takes its time from the C library: the clock shim does not reach it")
    step(server, clock, 0)
    return server


def server_time(server: RunningServer) -> float:
    seconds, micros = server.command("TIME")
    return int(seconds) + int(micros) / 1e6


def step(server: RunningServer, clock: Clock, offset: float) -> None:
    """And waits until the server has looked at its clock, which it does once per turn of its loop."""
    clock.step_to(offset)
    wait_for(lambda: abs(server_time(server) - time.time() - offset) < HOUR / 2)


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
    """Nobody releases: no tombstone is written, and still the fence of the future is remembered."""
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
    """It held across the step back, and its grant is renewed no more."""
    client, other = open_client(stepped_server.url), open_client(stepped_server.url)
    step(stepped_server, clock, HOUR)
    crashed = client.acquire("a", ttl=1)
    step(stepped_server, clock, 0)
    # Renewed once at the old time, it ends by its ttl again instead of sticking for an hour.
    wait_for(lambda: int(stepped_server.command("PTTL", "ht:{a}")) < 20_000)
    crashed.tenure.ended = True  # the process has died: nobody renews
    after = other.acquire("a", wait=10)
    assert after.fence > crashed.fence
    other.release(after)


def test_the_line_moves_on_over_a_step(stepped_server: RunningServer, clock: Clock, open_client: OpenClient) -> None:
    """A step ahead ends the lease on the server, and the waiter gets it; a step back keeps nobody waiting."""
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
