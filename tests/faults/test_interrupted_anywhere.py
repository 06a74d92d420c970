"""A Ctrl-C that the program survives, as in a notebook: wherever it comes, no lock is held for longer than its ttl."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import pytest

from holdtight import Lease, Locks
from holdtight.base.identity import Identity, identity
from holdtight.sync.quorum_lock import QuorumLock
from tests.faults.quorum import Nodes
from tests.support.interrupts import Moments, interrupted_at
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

TTL = 2.0
"""A request may take a third of it."""
TOO_LATE = 60.0
"""The ttl of locks that must be free at once: it comes too late to cure anything."""
LONG_TTL = 5.0
"""Long enough that a busy machine does not lose the lease."""
ENOUGH = 5
"""The test ends after this many runs without a new moment: not every run takes the same path."""


@pytest.fixture
def locks(private_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locks]:
    monkeypatch.setattr("holdtight.sync.driver.UNDO_SECONDS", 0.1)  # each lost reply costs this wait
    with Locks(private_server.url, ttl=TTL) as locks:
        yield locks


def block(locks: Locks, name: str) -> None:
    with locks.lock(name):
        pass


def long_block(locks: Locks, name: str) -> None:
    with locks.lock(name, ttl=TOO_LATE):
        pass


def long_block_entered_twice(locks: Locks, name: str) -> None:
    lock = locks.lock(name, ttl=TOO_LATE, reentrant=True)
    with lock, lock:
        pass


def long_permit(locks: Locks, name: str) -> None:
    with locks.semaphore(name, permits=2, ttl=TOO_LATE):
        pass


def handle(locks: Locks, name: str) -> None:
    locks.lock(name).acquire().release()


def try_handle(locks: Locks, name: str) -> None:
    lease = locks.lock(name).try_acquire()
    assert lease is not None
    lease.release()


def hold(locks: Locks, name: str) -> None:
    with locks.lock(name).hold():
        pass


def entered_twice(locks: Locks, name: str) -> None:
    lock = locks.lock(name, reentrant=True)
    with lock, lock:
        pass


def several(locks: Locks, name: str) -> None:
    with locks.multi(name, f"{name} too"):
        pass


def several_handle(locks: Locks, name: str) -> None:
    locks.multi(name, f"{name} too").acquire().release()


KEPT: list[Lease] = []
"""What the program still refers to, as in a notebook, where every name stays."""


def several_hold(locks: Locks, name: str) -> None:
    with locks.multi(name, f"{name} too").hold() as lease:
        KEPT.append(lease)


def several_kept(locks: Locks, name: str) -> None:
    lease = locks.multi(name, f"{name} too").acquire()
    KEPT.append(lease)
    try:
        lease.release()
    except BaseException:
        lease.release()  # a second time: it does nothing if the first has begun
        raise


def permit(locks: Locks, name: str) -> None:
    with locks.semaphore(name, permits=2):
        pass


def reader(locks: Locks, name: str) -> None:
    with locks.rwlock(name).read():
        pass


def downgraded(locks: Locks, name: str) -> None:
    with locks.rwlock(name).write() as lease:
        lease.downgrade().release()


def lease_block(locks: Locks, name: str) -> None:
    with locks.lock(name).acquire() as lease:
        KEPT.append(lease)


def several_lease_block(locks: Locks, name: str) -> None:
    with locks.multi(name, f"{name} too").acquire() as lease:
        KEPT.append(lease)


def downgraded_lease_block(locks: Locks, name: str) -> None:
    with locks.rwlock(name).write().acquire() as lease:
        KEPT.append(lease)
        lease.downgrade()


def adopted_block(locks: Locks, name: str) -> None:
    with locks.adopt(locks.lock(name).acquire().detach()) as lease:
        KEPT.append(lease)


def renewed_by_hand(locks: Locks, name: str) -> None:
    with locks.lock(name) as lease:
        lease.renew(TTL)


def handed_over(locks: Locks, name: str) -> None:
    locks.adopt(locks.lock(name).acquire().detach()).release()


def cohort_block(locks: Locks, name: str) -> None:
    with locks.lock(name, cohort=True, ttl=TOO_LATE):
        pass


def handed_in_a_cohort(locks: Locks, name: str) -> None:
    """Another thread holds it and hands it on; what is interrupted waits, takes over, and hands it back. A caller that
    comes after the window has closed waits in the server's line instead."""
    lock, over = locks.lock(name, cohort=True, ttl=TOO_LATE), threading.Event()

    def hold_then_wait() -> None:
        with lock:
            entered.set()
            while not (locks.cohort.waiters(name, locks) or locks.inspect(name).waiting) and not over.wait(0.001):
                pass
        with lock:
            pass

    entered = threading.Event()
    other = threading.Thread(target=hold_then_wait)
    other.start()
    entered.wait(10)
    interrupted = False
    try:
        with lock:
            over.set()
    except KeyboardInterrupt:
        interrupted = True  # and gone with its traceback, which would keep a lease that nobody has
    over.set()
    other.join(10)
    assert not other.is_alive()
    if interrupted:
        raise KeyboardInterrupt


USES = [
    *(block, handle, try_handle, hold, entered_twice, several, several_handle, several_hold, several_kept, permit),
    *(reader, downgraded, renewed_by_hand, handed_over),
    *(lease_block, several_lease_block, downgraded_lease_block, adopted_block),
    *(long_block, long_block_entered_twice, long_permit, cohort_block),
]


@pytest.fixture(params=[16, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
def one_of(request: pytest.FixtureRequest) -> int:
    """The test interrupts a use at every n-th moment. `make faults` interrupts it at all of them."""
    return int(request.param)


DROPPED = pytest.mark.filterwarnings(
    "ignore:the lease on .* was dropped without release:ResourceWarning",
    "ignore:unclosed <socket:ResourceWarning",  # of a call that was interrupted while it connected
)


@DROPPED
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_interrupted_anywhere_it_leaves_nothing_behind(
    locks: Locks, use: Callable[[Locks, str], None], one_of: int
) -> None:
    nothing_is_left_behind(locks, use, one_of)


@DROPPED
@pytest.mark.parametrize("window", [0.005, 30.0, 0.0], ids=["usual", "handed inside", "handed by the server"])
def test_a_hand_over_in_a_cohort_that_is_interrupted_anywhere_leaves_nothing_behind(
    locks: Locks, one_of: int, window: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant that is given up twice is taken from under the next member. With the usual window it depends on the
    machine which of the two paths a hand-over takes; the other windows play each of them alone."""
    monkeypatch.setattr("holdtight.clients.cohort_line.WINDOW", window)
    nothing_is_left_behind(locks, handed_in_a_cohort, one_of)


@DROPPED
@pytest.mark.parametrize(
    "use", [block, handle, several, several_hold, several_kept, lease_block], ids=lambda use: use.__name__
)
def test_interrupted_anywhere_on_a_quorum_it_leaves_nothing_behind(
    nodes: Nodes, use: Callable[[Locks, str], None], one_of: int
) -> None:
    with Locks(nodes.urls, ttl=TTL) as locks:
        nothing_is_left_behind(locks, use, one_of)


@DROPPED
def test_interrupted_anywhere_on_the_longer_way_to_a_quorum_it_leaves_nothing_behind(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, one_of: int
) -> None:
    """As happens when a node must be connected first, or another owner has the lock."""

    def by_plan(lock: QuorumLock, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        return lock._by_plan(None, None, lock.terms.clock(), wait, who, or_none)

    monkeypatch.setattr(QuorumLock, "_attempt", by_plan)
    with Locks(nodes.urls, ttl=TTL) as locks:
        nothing_is_left_behind(locks, block, one_of)


def test_interrupted_right_after_a_vote_by_plan_it_is_not_renewed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        voted(*args)
        raise KeyboardInterrupt

    voted = QuorumLock.tenure_of
    with Locks(nodes.urls, ttl=TTL) as locks:
        lock = locks.lock("a")
        with monkeypatch.context() as patch:
            patch.setattr(QuorumLock, "tenure_of", interrupted)
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()  # the first, which has to connect
        wait_for(lambda: not lock.locked())


def nothing_is_left_behind(locks: Locks, use: Callable[[Locks, str], None], one_of: int) -> None:
    where: dict[str, str] = {}
    gc.collect()
    gc.disable()  # a lease that is dropped is noticed without it
    try:
        interrupt_everywhere(locks, use, where, Moments(one_of, use.__name__))
        assert len(where) > 50 / one_of
        left = {each for name in where for each in (name, f"{name} too")}

        def all_free() -> bool:
            left.difference_update([name for name in left if not locks.lock(name).locked()])
            return not left

        try:
            wait_for(all_free)
        except AssertionError:
            pytest.fail("still held:\n" + "\n".join(sorted({where[name.split()[0]] for name in left})))
    finally:
        gc.enable()
        KEPT.clear()
        gc.collect()  # a socket that an interrupt left in a cycle must not be found by the next test
    with locks.lock("afterwards", ttl=LONG_TTL) as lease:  # if only renewal broke, nothing would be held for long
        renewed(lease)


def interrupt_everywhere(
    locks: Locks, use: Callable[[Locks, str], None], where: dict[str, str], moments: Moments
) -> None:
    """Interrupts the use at each of these moments, with a new lock each time. `where` records the places."""
    quiet = 0
    while quiet < ENOUGH:
        name = f"n{len(where)}"
        use(locks, name)  # so that the interrupt hits the usual path: connected, with the lock object made
        # At the call of a block's end no code of ours runs yet that could catch it.
        place = interrupted_at(moments, partial(use, locks, name), spared=frozenset(["__exit__"]))
        if place is None:
            quiet += 1
            continue
        where[name] = place
        assert not identity().stack, place
        assert not [tenure for tenure in identity().grants.values() if tenure.alive], place


def with_a_name(locks: Locks) -> Generator[Lease | None, None, None]:
    with locks.lock("a", ttl=LONG_TTL) as lease:
        yield lease


def without_a_name(locks: Locks) -> Generator[Lease | None, None, None]:
    with locks.lock("a", ttl=LONG_TTL):
        yield None


@pytest.mark.parametrize("work", [with_a_name, without_a_name])
def test_a_block_that_outlives_its_thread_ends_with_its_lease(
    locks: Locks, work: Callable[[Locks], Generator[Lease | None, None, None]]
) -> None:
    """In a generator that other code refers to: nothing can leave the block any more. Its lease is held for as long as
    the generator is referred to."""
    generator = work(locks)
    held: list[Lease | None] = []
    thread = threading.Thread(target=lambda: held.append(next(generator)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread.start()
        thread.join()
        gc.collect()
        lease = held.pop()
        if lease is not None:
            renewed(lease)
            with pytest.raises(RuntimeError, match="left in another thread"):
                generator.close()
            del lease
        gc.collect()
        wait_for(lambda: not locks.lock("a").locked())
        wait_for(lambda: any("'a' was dropped without release" in str(each.message) for each in caught))
    if work is without_a_name:
        with pytest.raises(RuntimeError, match="left in another thread"):
            generator.close()
