"""Places in line at the lock service: of clients that hang up, and of instances that end or are killed."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from holdtight import Locks
from holdtight.stores.redis.keys import keys_of
from tests.service.calling import Caller, play
from tests.service.instances import connect, in_background, instance, request, token_file, waiting
from tests.support.processes import wait_for
from tests.support.raw import RawClient
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


def test_who_hangs_up_leaves_the_line_and_who_is_told_to_go_keeps_its_place(
    server: RunningServer, tmp_path: Path
) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        held = one.post("acquire", token, name="a", ttl=60).json()
        with connect(one) as wire:
            wire.sendall(request(one, "acquire", token, name="a", ttl=60, wait=40, request="hangs up"))
            wait_for(lambda: waiting(server, "a") == 1, within=10)
        wait_for(lambda: waiting(server, "a") == 0, within=10)
        with instance(server.url, tmp_path, "--tokens", str(path)) as two:
            ask: dict[str, Any] = {"name": "a", "ttl": 60, "wait": 40, "request": "r"}
            thread, found = in_background(lambda: one.post("acquire", token, **ask))
            wait_for(lambda: waiting(server, "a") == 1, within=10)
            behind, last = in_background(
                lambda: two.post("acquire", token, name="a", ttl=60, wait=40, request="behind")
            )
            wait_for(lambda: waiting(server, "a") == 2, within=10)
            begun = time.monotonic()
            one.signal(signal.SIGTERM)
            assert one.process.wait(10) == 0
            assert time.monotonic() - begun < 5
            thread.join()
            assert (found[0].status_code, found[0].json()["code"]) == (503, "SHUTTING_DOWN")
            thread, found = in_background(lambda: two.post("acquire", token, **ask))
            time.sleep(0.2)
            assert two.post("release", token, lease=held["lease"]).status_code == 200
            thread.join()
            first = found[0].json()
            assert first["fence"] > held["fence"]
            two.post("release", token, lease=first["lease"])
            behind.join()
            assert last[0].json()["fence"] > first["fence"]


def test_an_instance_that_ends_keeps_its_places_for_a_whole_heartbeat(server: RunningServer) -> None:
    async def scene(one: Caller) -> None:
        await one.post("acquire", name="a", ttl=60)
        poll = asyncio.create_task(one.post("acquire", name="a", ttl=60, wait=40, request="r", expect=503))
        async with asyncio.timeout(20):
            while not (await one.get("lock", name="a"))["waiting"]:
                await asyncio.sleep(0.01)
        (owner,) = one.app.service.polls
        raw = RawClient(("127.0.0.1", server.port))

        def expiry() -> int:
            return int(raw.call("HGET", keys_of("ht", "a").waiters, owner)[2:15])

        before = expiry()
        await asyncio.sleep(0.1)
        await one.app.service.drain()
        assert (await poll)["code"] == "SHUTTING_DOWN"
        assert expiry() >= before + 100
        raw.close()

    play(server.url, scene)


def test_a_place_is_kept_for_five_seconds_at_whatever_moment_its_instance_is_killed(
    server: RunningServer, tmp_path: Path
) -> None:
    """All the while that the poll is open, also beside a waiter whose heartbeats keep its own place for less. A keeper
    that gets no time for a while sends its heartbeats late: hence the allowance."""
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one, Locks(server.url) as locks:
        held = locks.lock("a", ttl=60).acquire()
        with connect(one) as wire:
            wire.sendall(request(one, "acquire", token, name="a", ttl=60, wait=40, request="r", stay=True))
            wait_for(lambda: waiting(server, "a") == 1, within=10)
            thread, _ = in_background(lambda: locks.lock("a", ttl=60, wait=30).acquire().release())
            wait_for(lambda: waiting(server, "a") == 2, within=10)
            raw, names = RawClient(("127.0.0.1", server.port)), keys_of("ht", "a")
            (owner,) = raw.call("ZRANGE", names.queue, 0, 0)
            left: list[int] = []

            def look() -> None:
                seconds, micros = map(int, raw.call("TIME"))
                expiry = int(raw.call("HGET", names.waiters, owner)[2:15])
                left.append(min(expiry - seconds * 1000 - micros // 1000, raw.call("PTTL", names.queue)))

            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                look()
                time.sleep(0.02)
            one.signal(signal.SIGKILL)
            one.process.wait()
            look()
            raw.close()
        assert min(left) > 4_400, min(left)
        held.release()
        thread.join()
