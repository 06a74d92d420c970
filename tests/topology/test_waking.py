"""A caller that is about to wait for the old master goes on at once when there is a new one."""

from __future__ import annotations

import time

from holdtight import Backoff, Locks
from tests.faults.clients import OpenClient, start
from tests.support.processes import wait_for
from tests.support.sentinels import Topology

LIMIT = 1.0
LONG = 25


def test_a_caller_that_pauses_before_the_next_try_is_woken(topology: Topology, open_client: OpenClient) -> None:
    client = open_client(topology.url, retry=Backoff(f"{LONG}s", f"{LONG}s"), connect_timeout=2 * LONG)
    old = topology.master
    old.kill()
    taken = start(lambda: (client.acquire("free", wait=2 * LONG), time.monotonic()))
    wait_for(lambda: any(each.named() != old.port for each in topology.sentinels), what="another master")
    since = time.monotonic()
    lease, at = taken.result(LONG)
    assert at - since < LIMIT
    client.release(lease)


def test_a_connection_that_is_being_made_to_a_hung_master_is_given_up(topology: Topology) -> None:
    with Locks(topology.url) as locks:
        old = topology.master
        old.pause()
        made = start(lambda: (locks.place.open(LONG), time.monotonic()))
        wait_for(lambda: any(each.named() != old.port for each in topology.sentinels), what="another master")
        since = time.monotonic()
        link, at = made.result(LONG)
        assert at - since < LIMIT
        link.close()
