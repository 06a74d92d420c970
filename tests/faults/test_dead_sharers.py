"""Readers and holders of permits that are killed: each frees its own permit or place when its own ttl ends."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from holdtight.events import PreviousExpired
from tests.faults.clients import OpenClient, start, waiting
from tests.support.processes import Child, StartChild, wait_for
from tests.support.servers import RunningServer

SHORT, LONG = 1.0, 4.0
LEAST = LONG * 2 / 3
"""The least time that a killed holder has left: its lease was renewed after a third of the ttl."""

SHARER = """
from holdtight import Locks
url, kind, ttl = args
locks = Locks(url)
lock = locks.rwlock("a").read(ttl=float(ttl)) if kind == "reader" else locks.semaphore("a", permits=3, ttl=float(ttl))
print(lock.acquire().owner, flush=True)
hear()
"""


def sharers(server: RunningServer, start_child: StartChild, kind: str) -> list[tuple[Child, str]]:
    children = [start_child(SHARER, server.url, kind, str(ttl)) for ttl in (SHORT, LONG)]
    return [(child, child.wait_line()) for child in children]


def test_waiters_for_permits_come_in_one_by_one(
    private_server: RunningServer, start_child: StartChild, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    expired: list[str] = []

    def hear(event: object) -> None:
        if isinstance(event, PreviousExpired):
            expired.append(event.previous)

    client.locks.events.subscribe(hear)
    (short, first), (long, second) = sharers(private_server, start_child, "permit")
    semaphore = client.locks.semaphore("a", permits=3)
    mine = client.call(semaphore.acquire)
    waiters: list[Future[Any]] = []
    for number in (1, 2):
        waiters.append(start(lambda: client.call(semaphore.acquire)))
        wait_for(lambda number=number: waiting(private_server, "a") == number)  # type: ignore[misc]
    short.kill()
    long.kill()
    killed = time.monotonic()
    left = {each.owner: each.expires_in for each in client.call(client.locks.inspect, "a").holders}
    assert left[second] > left[first] + 1
    leases = [waiters[0].result(10)]
    assert time.monotonic() - killed < left[second]
    assert not waiters[1].done()
    leases.append(waiters[1].result(10))
    assert time.monotonic() - killed > left[second] - 0.1
    wait_for(lambda: len(expired) == 2, what="both to be told")
    assert expired == [first, second]
    for lease in (mine, *leases):
        lease.check()
        client.release(lease)


def test_a_writer_waits_for_the_last_of_the_readers_that_go_one_by_one(
    private_server: RunningServer, start_child: StartChild, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    (short, _), (long, second) = sharers(private_server, start_child, "reader")
    book = client.locks.rwlock("a")
    writer = start(lambda: client.call(book.write().acquire))
    wait_for(lambda: waiting(private_server, "a") == 1)
    short.kill()
    long.kill()
    killed = time.monotonic()

    def reading() -> list[str]:
        return [holder.owner for holder in client.call(book.inspect).holders]

    wait_for(lambda: reading() == [second], what="the first to be gone")
    assert time.monotonic() - killed < LEAST
    lease = writer.result(15)
    assert LEAST - SHORT / 2 < time.monotonic() - killed < LONG + 2.0
    client.release(lease)
