"""Ctrl-C and SIGTERM at any moment: the program ends at once, and the lock is free within its ttl."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.keeper.charges import TOUCH_SECONDS
from holdtight.keeper.keeper import THREAD_NAME
from tests.faults import ending
from tests.faults.clients import COLOURS, lock_keys, waiting
from tests.faults.ending import TTL
from tests.support.processes import Child, StartChild, wait_for
from tests.support.servers import RunningServer

HEARTBEAT = 5.0


def interrupted(child: Child) -> None:
    """It ends soon, and by KeyboardInterrupt."""
    started = time.monotonic()
    child.signal(signal.SIGINT)
    code = child.wait(10)
    took = time.monotonic() - started
    assert code in (-signal.SIGINT, 130, 1), child.errors
    assert "KeyboardInterrupt" in child.errors
    assert took < 3, f"it took {took:.1f} s to end:\n{child.errors}"


def free_within_its_ttl(server: RunningServer) -> None:
    with Locks(server.url) as locks:
        locks.lock("a").acquire(wait=TTL + 3).release()
    assert waiting(server, "a") == 0


@pytest.mark.parametrize("colour", COLOURS)
def test_ctrl_c_at_any_moment_of_taking_and_giving(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    chance = random.Random(3)
    for _ in range(6):
        child = start_child(ending.take_and_give_until_interrupted, private_server.url, colour)
        child.expect("ready")
        time.sleep(chance.uniform(0, 0.01))  # picks the moment; not a synchronisation
        interrupted(child)
        free_within_its_ttl(private_server)


@pytest.mark.parametrize("colour", COLOURS)
def test_ctrl_c_while_connecting_and_while_in_line(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    chance = random.Random(4)
    with Locks(private_server.url) as locks, locks.lock("a", ttl=10):
        for number in range(5):
            child = start_child(ending.wait_until_interrupted, private_server.url, colour)
            child.expect("ready")
            if number < 3:
                time.sleep(chance.uniform(0, 0.02))  # the moment: most likely before it stands in line
            else:
                wait_for(lambda: waiting(private_server, "a") == 1)
            interrupted(child)
            wait_for(lambda: waiting(private_server, "a") == 0, within=HEARTBEAT + 1)


@pytest.mark.parametrize("colour", COLOURS)
def test_ctrl_c_at_the_moment_of_the_hand_over(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    chance = random.Random(5)
    with Locks(private_server.url) as locks:
        for _ in range(3):
            held = locks.lock("a", ttl=10).acquire(wait=TTL + 3)
            child = start_child(ending.wait_until_interrupted, private_server.url, colour)
            wait_for(lambda: waiting(private_server, "a") == 1)
            held.release()
            time.sleep(chance.uniform(0, 0.003))  # the moment
            child.signal(signal.SIGINT)
            child.wait(10)
            free_within_its_ttl(private_server)


@pytest.mark.parametrize("colour", COLOURS)
def test_ctrl_c_in_a_block_releases_the_lock(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    child = start_child(ending.hold_until_interrupted, private_server.url, colour)
    child.expect("ready")
    interrupted(child)
    with Locks(private_server.url) as locks:
        assert not locks.lock("a").locked()


@pytest.mark.parametrize("colour", COLOURS)
def test_sigterm_ends_a_holder_at_once_and_its_lock_with_the_ttl(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    child = start_child(ending.hold_until_interrupted, private_server.url, colour)
    child.expect("ready")
    child.signal(signal.SIGTERM)
    assert child.wait(5) == -signal.SIGTERM
    free_within_its_ttl(private_server)


@pytest.mark.parametrize("colour", COLOURS)
def test_sigterm_ends_a_waiter_at_once_and_its_entry_with_the_heartbeat(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    with Locks(private_server.url) as locks:
        held = locks.lock("a", ttl=10).acquire()
        child = start_child(ending.wait_until_interrupted, private_server.url, colour)
        wait_for(lambda: waiting(private_server, "a") == 1)
        signalled = time.monotonic()
        child.signal(signal.SIGTERM)
        assert child.wait(5) == -signal.SIGTERM
        keys = lock_keys(private_server)
        if "ht:{a}:q" in keys:
            assert keys["ht:{a}:q"] <= HEARTBEAT * 1000
        else:  # a busy machine was slow to end the process, or to look
            assert time.monotonic() - signalled > HEARTBEAT - TOUCH_SECONDS, "the entry ends with the heartbeat"
        started = time.monotonic()
        held.release()
        locks.lock("a").acquire(wait=5).release()
        assert time.monotonic() - started < 2, "the next one does not wait for the dead"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see what a thread blocks")
def test_no_signal_is_given_to_a_thread_of_ours(private_server: RunningServer) -> None:
    """The kernel may give a Ctrl-C to any thread that does not block it, and the main thread would sleep on."""
    with Locks(private_server.url) as locks, locks.lock("a", ttl=5) as lease:
        lease.renew()
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("holdtight-")]
        seen = set[str]()
        for thread in ours:
            try:
                status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
            except FileNotFoundError:
                continue  # a thread that connected has just ended
            blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
            assert blocked >> (signal.SIGINT - 1) & 1
            assert blocked >> (signal.SIGTERM - 1) & 1
            seen.add(thread.name)
        assert THREAD_NAME in seen
