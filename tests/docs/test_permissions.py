"""The rights that docs/permissions.md names are enough, for everything that a lock does."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from holdtight import DeadlockDetected, Locks
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


def play_jobs(locks: Locks) -> None:
    """Every request that a job sends."""
    job = locks.once("job", at_least=60)(lambda: 1)
    assert (job(), bool(job())) == (1, False)
    assert job.last() is not None
    job.forget()
    flight = locks.single_flight("flight", ttl=60, stale=60)(lambda: 1)
    assert (flight(), flight(), flight.refresh()) == (1, 1, 1)
    flight.expire()
    assert flight.peek() is not None
    flight.invalidate()
    leader = locks.leader("leader")
    with leader as term:
        term.proclaim("a new label")
        assert leader.current() is not None
        assert leader.contenders() == ()


def test_the_rights_that_are_listed_are_enough(private_server: RunningServer) -> None:
    found = re.search(r"^ACL SETUSER .*?(?=^```)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    private_server.command(*found[0].split())
    url = f"redis://locker:secret@127.0.0.1:{private_server.port}/0"
    got: list[int] = []
    with Locks(url, ttl=3) as locks:
        lock = locks.lock("a")

        def wait() -> None:
            with lock as lease:
                got.append(lease.fence)

        waiter = threading.Thread(target=wait)
        with lock as lease:
            waiter.start()
            wait_for(lambda: lock.inspect().waiting == 1)
            granted_until = time.monotonic() + lease.remaining()
            wait_for(lambda: time.monotonic() + lease.remaining() > granted_until + 0.5, what="a renewal")
        waiter.join(5)
        assert got
        assert got[0] > lease.fence
        with Locks(url, deadlock_after=0) as other, locks.lock("b"), pytest.raises(DeadlockDetected):
            other.lock("b").acquire(wait=5)  # our own, by way of another client
        locks.adopt(locks.lock("b").acquire().detach()).release()
        locks.lock("b").acquire(wait=0).release()
        book = locks.rwlock("book")
        with book.write() as writer:
            writer.downgrade()
        with locks.multi("a", book.read(), locks.semaphore("gate", permits=3)) as several:
            several.renew()
        with locks.semaphore("gate", permits=3).hold(2):
            assert book.inspect().holders == ()
        play_jobs(locks)
    assert private_server.command("ACL", "LOG") == []
