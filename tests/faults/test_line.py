"""The line: first come, first served, whichever waiter dies or is stopped."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from holdtight import Locks
from holdtight.stores.memory.engine import HEARTBEAT
from holdtight.stores.redis import script
from tests.faults import standing
from tests.faults.clients import COLOURS, tidy, waiting
from tests.support.processes import Child, StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

CLAIM_WINDOW = 0.5
TOUCH = 5 / 3
"""Seconds from one heartbeat of a waiter to the next."""
SLACK = 2.0
"""Allowance for a busy machine; shorter than any wait that these tests exclude."""
WORK = {"sync": standing.in_threads, "asyncio": standing.in_tasks}


class Line:
    """A held lock, and children whose waiters stand in line for it."""

    def __init__(self, server: RunningServer, locks: Locks, start_child: StartChild) -> None:
        self.server, self._locks, self._start_child = server, locks, start_child
        self.held = locks.lock("a", ttl=30).acquire()
        self.labels: list[str] = []

    def child(self, colour: str) -> Child:
        return self._start_child(WORK[colour], self.server.url)

    def join(self, child: Child, label: str) -> None:
        """Returns when the server has queued it."""
        before = waiting(self.server, "a")
        child.send(label)
        wait_for(lambda: waiting(self.server, "a") == before + 1, within=30, what=f"{label} to stand in line")
        self.labels.append(label)

    def in_line(self) -> list[str | None]:
        return [each.label for each in self._locks.inspect("a").waiters]

    def free(self) -> bool:
        return not self._locks.lock("a").locked()

    def hear_of(self, label: str, ago: float) -> None:
        """Sets its last heartbeat to `ago` seconds before now."""
        waiter = next(each for each in self._locks.inspect("a").waiters if each.label == label)
        place = ("ht:{a}:w", base64.urlsafe_b64decode(waiter.owner))
        seconds, micros = map(int, self.server.command("TIME"))
        expiry = seconds * 1000 + micros // 1000 + HEARTBEAT - int(ago * 1000)
        entry = self.server.command("HGET", *place)
        self.server.command("HSET", *place, f"{entry[:2]}{expiry:013d}{entry[15:]}")

    def release(self) -> float:
        self.held.release()
        return time.monotonic()


def served(child: Child, within: float = 10) -> tuple[str, int, float]:
    label, fence, at = child.wait_line(within).split()
    return label, int(fence), float(at)


@pytest.fixture
def line(private_server: RunningServer, start_child: StartChild) -> Iterator[Line]:
    with Locks(private_server.url) as locks:
        line = Line(private_server, locks, start_child)
        yield line
        line.held.release()


def test_64_waiters_in_4_processes_are_served_in_the_order_of_the_server(line: Line) -> None:
    children = [line.child(colour) for colour in ("sync", "asyncio", "sync", "asyncio")]
    for number in range(64):
        line.join(children[number * 7 % 4], str(number))
    assert line.in_line() == line.labels
    released = line.release()
    seen = [served(child) for child in children for _ in range(16)]
    in_order = sorted(seen, key=lambda each: each[1])
    assert [label for label, _, _ in in_order] == line.labels
    assert sorted(seen, key=lambda each: each[2]) == in_order
    assert in_order[-1][2] - released < 64 * CLAIM_WINDOW / 10, "nobody waited for anything but the ones before"
    wait_for(line.free, what="the last of them to leave the block in which it spoke")
    tidy(line.server)


def test_a_release_of_a_name_that_others_want_wakes_them_before_it_is_answered(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild
) -> None:
    """From the second time on: the first hand-over tells the client that the name has waiters."""
    release = script.RELEASE.sha.encode()
    with Locks(proxy.url) as locks:
        with locks.lock("a", ttl=30):
            pass  # the server has the scripts now
        for inboxes in (0, 1, 1):
            child = start_child(WORK["sync"], private_server.url)
            with locks.lock("a", ttl=30):
                child.send("waiter")
                wait_for(lambda: waiting(private_server, "a") == 1, within=30, what="a waiter in line")
                proxy.clear()
            served(child)
            words = proxy.wait_for_request(release).words
            assert len([word for word in words if word.startswith(b"ht:inbox:")]) == inboxes
            wait_for(lambda: not locks.lock("a").locked(), what="the waiter to release")
    tidy(private_server)


@pytest.mark.parametrize("colour", COLOURS)
def test_five_killed_waiters_delay_nobody(line: Line, colour: str) -> None:
    survivors = line.child(colour)
    doomed = [line.child(colour) for _ in range(5)]
    for number, victim in enumerate(doomed):
        line.join(survivors, f"survivor-{number}")
        line.join(victim, f"victim-{number}")
    line.join(survivors, "survivor-5")
    for victim in doomed:
        victim.kill()
    released = line.release()
    seen = [served(survivors) for _ in range(6)]
    assert [label for label, _, _ in seen] == [f"survivor-{number}" for number in range(6)]
    assert seen[-1][2] - released < CLAIM_WINDOW, "less than one claim window for all five"


@pytest.mark.parametrize("silent", [0.0, 0.3], ids=["stopped just now", "stopped a while ago"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_stopped_waiter_at_the_head_costs_one_claim_window_and_no_more(
    line: Line, colour: str, silent: float
) -> None:
    stopped, others = line.child(colour), line.child(colour)
    line.join(stopped, "stopped")
    for number in range(4):
        line.join(others, f"other-{number}")
    stopped.pause()
    line.hear_of("stopped", ago=silent)
    released = line.release()
    seen = [served(others) for _ in range(4)]
    assert [label for label, _, _ in seen] == [f"other-{number}" for number in range(4)]
    first, last = seen[0][2] - released, seen[-1][2] - released
    assert CLAIM_WINDOW * 0.9 < first < CLAIM_WINDOW + 0.25
    assert last < CLAIM_WINDOW + 0.5, "only the first pays, and pays once"


@pytest.mark.parametrize("colour", COLOURS)
def test_a_stopped_waiter_that_wakes_up_has_kept_its_place(line: Line, colour: str) -> None:
    """Passed over while it was stopped; awake again it stands where it stood, before all later waiters."""
    with Locks(line.server.url) as locks:
        stopped, others = line.child(colour), line.child(colour)
        line.join(stopped, "stopped")
        stopped.pause()
        line.release()
        # Its claim window passes, and the quickest of the others takes the lock.
        guard = locks.lock("a", ttl=30, wait=5).acquire()
        line.join(others, "later")
        stopped.resume()
        wait_for(lambda: line.in_line() == ["stopped", "later"], what="the one that was stopped to ask again")
        wait_for(lambda: not _passed_over(line.server), within=6, what="its own attempt to clear the mark")
        guard.release()
        first, second = served(stopped), served(others)
        assert first[1] < second[1], "it is served before the one that came later"


def _passed_over(server: RunningServer) -> bool:
    """Whether a waiter in line bears the mark of a missed claim."""
    entries = server.command("HGETALL", "ht:{a}:w")
    return any(entry[1:2] == "m" for entry in entries[1::2])


@pytest.mark.parametrize("colour", COLOURS)
def test_a_dead_holder_costs_its_ttl_and_the_line_goes_on(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    holder, others = start_child(HOLDER, private_server.url, "1"), start_child(WORK[colour], private_server.url)
    holder.expect("held")
    for number in range(3):
        others.send(str(number))
        wait_for(lambda number=number: waiting(private_server, "a") == number + 1)  # type: ignore[misc]
    holder.kill()
    killed = time.monotonic()
    seen = [served(others) for _ in range(3)]
    assert [label for label, _, _ in seen] == ["0", "1", "2"]
    assert seen[-1][2] - killed < 1 + 2


@pytest.mark.parametrize("colour", COLOURS)
def test_a_holder_and_twenty_waiters_that_are_killed_cost_the_ttl_and_one_heartbeat(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    ttl = 3.0
    holder, other = start_child(HOLDER, private_server.url, str(ttl)), start_child(WORK[colour], private_server.url)
    doomed = [start_child(WORK[colour], private_server.url) for _ in range(2)]
    holder.expect("held")
    for number in range(20):
        doomed[number % 2].send(str(number))
        wait_for(lambda number=number: waiting(private_server, "a") == number + 1)  # type: ignore[misc]
    other.send("survivor")
    wait_for(lambda: waiting(private_server, "a") == 21)
    for victim in (holder, *doomed):
        victim.kill()
    killed = time.monotonic()
    assert served(other)[2] - killed < ttl + TOUCH + SLACK, "not 250 ms for each of the dead"


@pytest.mark.parametrize("colour", COLOURS)
def test_a_killed_writer_in_line_keeps_readers_out_for_one_heartbeat(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    """Although another reader holds on, and no release comes."""
    with Locks(private_server.url) as locks, locks.rwlock("a", ttl=30).read() as reading:
        writer, readers = (start_child(WORK[colour], private_server.url) for _ in range(2))
        writer.send("writer")
        wait_for(lambda: waiting(private_server, "a") == 1)
        for number in range(2):
            readers.send(f"reader-{number}")
            wait_for(lambda number=number: waiting(private_server, "a") == number + 2)  # type: ignore[misc]
        writer.kill()
        killed = time.monotonic()
        seen = [served(readers) for _ in range(2)]
        assert max(at for _, _, at in seen) - killed < TOUCH + SLACK, "not until its place lapses"
        assert {label for label, _, _ in seen} == {"reader-0", "reader-1"}
        reading.check()


HOLDER = """
from holdtight import Locks
lease = Locks(args[0]).lock("a", ttl=float(args[1])).acquire()
say("held")
hear()
"""
