"""A grant that the old master gave before the client left it, and that is read afterwards: the caller's loop was
blocked, or its thread did not get to run. It must not count."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from holdtight import AsyncLocks, Locks
from tests.faults.clients import start as begin
from tests.support.clusters import Cluster
from tests.support.processes import wait_for
from tests.topology.switching import Switch

NAME = "thing"
KEY = "ht:{thing}"


def test_a_blocked_loop_does_not_take_the_old_masters_word(switch: Switch) -> None:
    async def main() -> None:
        async with AsyncLocks(switch.url, ttl=60) as locks:
            async with locks.lock("before"):
                pass
            taking = asyncio.create_task(locks.lock(NAME).acquire())
            await asyncio.sleep(0)  # sends
            # From here on the loop does nothing else, and the old server's grant lies in the socket.
            wait_for(lambda: switch.old.keys(KEY), what="the old server's grant")
            switch.happen(locks)
            lease = await taking
            assert lease.nodes == (f"redis://127.0.0.1:{switch.new.port}/0",)
            assert switch.new.keys(KEY) == [KEY]
            await lease.release()

    asyncio.run(main())


def held_up(locks: Any) -> tuple[Callable[[], bool], Callable[[], None]]:
    """Makes the next thread that reads a reply go on only when the second function is called. The first one tells
    whether it has read."""
    link = locks.transport.idle[-1]
    reading, writing = os.pipe()
    read: list[bytes] = []

    def read_and_wait(fd: int, size: int) -> bytes:
        read.append(os.read(fd, size))
        os.read(reading, 1)
        return read[-1]

    def go_on() -> None:
        os.write(writing, b"!")
        os.close(writing)

    link._bare[1] = read_and_wait
    return lambda: bool(read), go_on


def test_a_thread_that_is_held_up_does_not_take_the_old_masters_word(switch: Switch) -> None:
    with Locks(switch.url, ttl=60, spin=False) as locks:
        with locks.lock("before"):
            pass
        has_read, go_on = held_up(locks)
        taking = begin(lambda: locks.lock(NAME).acquire())
        wait_for(has_read)
        switch.happen(locks)
        go_on()
        lease = taking.result(20)
        assert lease.nodes == (f"redis://127.0.0.1:{switch.new.port}/0",)
        assert switch.new.keys(KEY) == [KEY]
        lease.release()


def test_on_a_cluster_a_thread_that_is_held_up_does_not_take_the_old_masters_word(cluster: Cluster) -> None:
    old = cluster.masters[0]
    name, before = (cluster.name_on(old, prefix) for prefix in ("late", "before"))
    with Locks(cluster.url, ttl=60, spin=False) as locks:
        with locks.lock(before):
            pass
        has_read, go_on = held_up(locks.place.of_name(name).home)  # type: ignore[attr-defined]
        taking = begin(lambda: locks.lock(name).acquire())
        wait_for(has_read)
        fail_over_without(cluster, old, name, locks)
        go_on()
        lease = taking.result(20)
        assert cluster.master_of(name).keys(f"ht:{{{name}}}")
        lease.release()


def test_on_a_cluster_a_blocked_loop_does_not_take_the_old_masters_word(cluster: Cluster) -> None:
    old = cluster.masters[0]
    name, before = (cluster.name_on(old, prefix) for prefix in ("late", "before"))

    async def main() -> None:
        async with AsyncLocks(cluster.url, ttl=60) as locks:
            async with locks.lock(before):
                pass
            taking = asyncio.create_task(locks.lock(name).acquire())
            await asyncio.sleep(0)
            wait_for(lambda: old.keys(f"ht:{{{name}}}"), what="the old server's grant")
            fail_over_without(cluster, old, name, locks)
            lease = await taking
            assert cluster.master_of(name).keys(f"ht:{{{name}}}")
            await lease.release()

    asyncio.run(main())


def fail_over_without(cluster: Cluster, old: Any, name: str, locks: Any) -> None:
    """The replica takes over, and has not heard of the last grant. Returns when the client has left the old server."""
    told: list[tuple[str, str]] = []
    locks.place.tell_failover = lambda *servers: told.append(servers)
    old.command("DEL", f"ht:{{{name}}}")
    cluster.failover(old)
    cluster.replaced(old)  # a doubt ends with the next round, whatever the nodes say in it
    locks.place.scout.doubt()
    wait_for(lambda: told, what="the client to be told")
