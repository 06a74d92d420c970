"""lose(): the lock is really gone, and the holder is told as usual."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks, LossReason, NotOwner
from holdtight.events import Lost
from holdtight.testing import Clock, lose
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


@pytest.fixture(params=["clock", "memory", "server"])
def target(request: pytest.FixtureRequest) -> Iterator[object]:
    """On a test clock, in real time, and on a real server."""
    if request.param == "server":
        server: RunningServer = request.getfixturevalue("private_server")
        yield server.url
    elif request.param == "memory":
        yield "memory://losing"
    else:
        clock = Clock()
        yield clock.store()
        clock.stop()


@pytest.fixture
def locks(target: Any) -> Iterator[Locks]:
    with Locks(target, ttl=20) as locks:
        yield locks


def test_a_lock_that_was_taken_is_another_owners(locks: Locks) -> None:
    called: list[Any] = []
    heard: list[Any] = []
    locks.events.subscribe(heard.append)
    lease = locks.lock("taken").acquire()
    lease.on_lost(called.append)
    lose(lease)
    assert (lease.lost, lease.reason) == (True, LossReason.TAKEN)
    (holder,) = locks.inspect("taken").holders
    assert holder.owner != lease.owner
    assert holder.fence is not None
    assert holder.fence > lease.fence
    wait_for(lambda: called == [lease])
    wait_for(lambda: [event.reason for event in heard if isinstance(event, Lost)] == [LossReason.TAKEN])
    with pytest.raises(NotOwner):
        lease.release()
    assert locks.lock("taken").locked()


@pytest.mark.parametrize(
    "reason", [LossReason.EXPIRED, LossReason.FORCED, LossReason.UNREACHABLE, LossReason.MAX_HOLD], ids=str
)
def test_a_lock_that_was_lost_otherwise_is_free(locks: Locks, reason: LossReason) -> None:
    with pytest.raises(LeaseLost) as caught, locks.lock("free") as lease:  # noqa: PT012
        lose(lease, reason)
        assert not locks.lock("free").locked()
    assert caught.value.reason is reason


def test_the_next_in_line_gets_it(locks: Locks) -> None:
    got: list[int] = []

    def take() -> None:
        with locks.lock("next") as lease:
            got.append(lease.fence)

    lease = locks.lock("next").acquire()
    thread = threading.Thread(target=take)
    thread.start()
    wait_for(lambda: locks.inspect("next").waiting == 1)
    lose(lease)
    wait_for(lambda: got)
    assert got[0] > lease.fence
    thread.join(10)


def test_a_lease_that_is_not_renewed_is_lost_alike(locks: Locks) -> None:
    lease = locks.lock("still", renew=False).acquire()
    lose(lease)
    assert lease.reason is LossReason.TAKEN


@pytest.mark.parametrize("kind", ["read", "permit", "several"])
def test_leases_of_all_kinds_can_be_lost(locks: Locks, kind: str) -> None:
    made: dict[str, Any] = {
        "read": locks.rwlock("kinds").read(),
        "permit": locks.semaphore("permits", permits=2),
        "several": locks.multi("one", "other"),
    }
    lease = made[kind].acquire()
    lose(lease)
    assert lease.lost
    assert lease.reason is LossReason.TAKEN
    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(NotOwner):
        lease.release()


def test_the_body_of_an_async_with_is_cancelled(target: Any) -> None:
    async def main() -> None:
        async with AsyncLocks(target) as locks:
            with pytest.raises(LeaseLost) as caught:  # noqa: PT012
                async with locks.lock("body") as lease:
                    lose(lease, LossReason.FORCED)
                    await asyncio.sleep(20)
            assert caught.value.reason is LossReason.FORCED

    asyncio.run(main())


def test_what_is_not_held_cannot_be_lost(locks: Locks) -> None:
    released, lost = locks.lock("a").acquire(), locks.lock("b").acquire()
    released.release()
    lose(lost, LossReason.EXPIRED)
    for lease in (released, lost):
        with pytest.raises(ValueError, match="lost or released already"):
            lose(lease)
    held = locks.lock("c").acquire()
    with pytest.raises(ValueError, match="only a fork makes"):
        lose(held, LossReason.FORKED)
    held.check()
    held.release()
