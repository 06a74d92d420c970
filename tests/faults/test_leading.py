"""`leader` when processes are killed, paused or cut off: terms never overlap, and the next begins in time."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks, LossReason, NotSupported, current_lease
from holdtight.recipes.leading import OVERRUN_EXIT
from holdtight.stores.times import TAIL_MS
from tests.faults.clients import COLOURS, Client, OpenClient, start
from tests.faults.jobs import async_leading_program, leading_program, overrunning_program
from tests.faults.quorum import StartNodes
from tests.support.processes import Child, StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


def moments(path: Path) -> list[tuple[float, int]]:
    """When `check()` passed, in the order of time, and in which term. A line that a kill has cut is left out."""
    lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else iter(())
    return sorted((float(line[0]), int(line[1])) for line in lines if len(line) == 2 and len(line[1]) == 16)


def no_overlap(path: Path) -> int:
    """How many terms there were; none may pass `check()` once a later one has begun."""
    fences = [fence for _, fence in moments(path)]
    assert fences == sorted(fences), "a term passed check() when a later one had"
    return len(set(fences))


def campaign(start_child: StartChild, url: str, path: Path, seconds: float) -> int:
    """Kills and pauses contenders at random, mostly the leader. On a busy machine this takes longer, until there were
    five terms."""
    children: list[Child] = []
    end = time.monotonic() + seconds
    locks = Locks(url)
    leader = locks.leader("leading")
    while time.monotonic() < end or (no_overlap(path) < 5 and time.monotonic() < end + 150):
        children = [child for child in children if child.running]
        while len(children) < 3:
            children.append(start_child(leading_program, url, str(path)))
        now = leader.current()
        leading = [child for child in children if now is not None and child.pid == now.pid]
        victim = random.choice(leading or children) if random.random() < 0.8 else random.choice(children)
        if random.random() < 0.3:
            victim.kill()
        else:
            victim.pause()
            time.sleep(random.uniform(0.2, 2.0))
            victim.resume()
        time.sleep(random.uniform(0.05, 0.4))
    for child in children:
        child.kill()
    locks.close()
    return no_overlap(path)


def test_a_killed_leader_is_followed_within_its_ttl_and_a_second(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path
) -> None:
    path = tmp_path / "checks"
    first, second = (start_child(leading_program, private_server.url, str(path)) for _ in range(2))
    for child in (first, second):
        child.expect("ready", within=60)
    wait_for(lambda: moments(path))
    with Locks(private_server.url) as locks:
        leader = locks.leader("leading")
        now = wait_for(lambda: leader.current() if leader.contenders() else None)
        leading, other = (first, second) if now.pid == first.pid else (second, first)
        leading.kill()
        killed = time.clock_gettime(time.CLOCK_MONOTONIC)
        begun = wait_for(lambda: [at for at, fence in moments(path) if fence > now.fence])[0]
        assert begun - killed < 10 * 2.5, "ttl and a second is 2.5 s, and the machine is busy"
        other.pause()
        paused = start_child(leading_program, private_server.url, str(path))
        wait_for(lambda: (found := leader.current()) and found.pid == paused.pid)
        wait_for(lambda: moments(path)[-1][1] == leader.current().fence)  # type: ignore[union-attr]
        other.resume()
        wait_for(lambda: leader.contenders(), what="the paused leader to campaign again")
        for child in (other, paused):
            child.signal(signal.SIGTERM)  # whose handler calls stop()
        for child in (other, paused):
            assert child.wait() == 0, child.errors
        assert leader.current() is None, "it resigned: nobody waits for its ttl"
    assert no_overlap(path) >= 3


@pytest.mark.long
def test_terms_never_overlap_for_30_s_of_kills_and_pauses(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path
) -> None:
    assert campaign(start_child, private_server.url, tmp_path / "checks", 30) >= 5


def test_a_leader_that_is_cut_off_stops_while_its_lease_goes_on(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client: Client = open_client(proxy.url)
    term = client.call(client.locks.leader("leading", ttl=6, grace=2).campaign)
    proxy.refuse()
    proxy.cut()
    wait_for(lambda: term.lost)
    left = int(private_server.command("PTTL", "ht:{leading}")) - TAIL_MS
    assert left > 300, "the lease goes on for about the grace"
    assert term.reason is LossReason.UNREACHABLE
    proxy.accept()


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("why", ["cut off", "stopped"])
def test_work_that_goes_on_when_the_lease_has_ended_ends_its_process(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild, why: str, colour: str
) -> None:
    child = start_child(overrunning_program, proxy.url, colour)
    child.expect("leads", within=60)
    if why == "stopped":
        child.send("stop")
    else:
        proxy.black_hole()
    assert child.wait(30) == OVERRUN_EXIT


class Stubborn:
    """Work that goes on until the test lets it end."""

    def __init__(self, client: Client) -> None:
        self.terms, self.go = list[Any](), threading.Event()
        self.work = self.sync if isinstance(client.locks, Locks) else self.coloured

    def sync(self, term: Any) -> None:
        self.terms.append(term)
        assert self.go.wait(60)

    async def coloured(self, term: Any) -> None:
        self.terms.append(term)
        while not self.go.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


def test_work_that_goes_on_after_stop_is_logged(
    private_server: RunningServer, open_client: OpenClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(private_server.url)
    stubborn, leader = Stubborn(client), client.locks.leader("leading", ttl=1.5, grace=0.4)
    run = start(lambda: client.call(leader.run, stubborn.work))
    wait_for(lambda: stubborn.terms)
    leader.stop()  # from this thread, also for a loop in another
    wait_for(lambda: "its work goes on, and its lease has ended" in caplog.text)
    assert not run.done()
    stubborn.go.set()
    run.result(30)
    assert client.call(leader.current) is None


def test_a_signal_handler_stops_a_leader_of_asyncio(private_server: RunningServer, start_child: StartChild) -> None:
    child = start_child(async_leading_program, private_server.url)
    child.expect("leads", within=60)
    child.signal(signal.SIGTERM)
    child.expect("stopped")
    assert child.wait() == 0, child.errors
    with Locks(private_server.url) as locks:
        assert locks.leader("leading").current() is None


async def cancelled_twice(first: int, second: int) -> None:
    """After so many turns of the loop, and so many later."""

    async def work(term: Any) -> None:
        await asyncio.sleep(60)

    async with AsyncLocks(f"memory://cancelled-{first}-{second}") as locks:
        run = asyncio.create_task(locks.leader("leading").run(work))
        for turns in (first, second):
            for _ in range(turns):
                await asyncio.sleep(0)
            run.cancel()
        await asyncio.wait([run])
        with pytest.raises(asyncio.CancelledError):
            run.result()
        assert not (await locks.inspect("leading")).locked


@pytest.mark.parametrize("first", range(8))
def test_a_run_that_is_cancelled_twice_leaves_no_term_behind(first: int) -> None:
    for second in range(5):
        asyncio.run(cancelled_twice(first, second))


def test_a_run_that_is_interrupted_when_it_was_just_elected_leaves_no_term_behind(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    with Locks(private_server.url, ttl=60) as locks:
        leader = locks.leader("leading")
        monkeypatch.setattr(leader, "_govern", interrupted)
        with pytest.raises(KeyboardInterrupt):
            leader.run(print)
        wait_for(lambda: leader.current() is None, what="the term to be given back")


def test_a_client_that_is_closed_while_somebody_observes_ends_that(private_server: RunningServer) -> None:
    with Locks(private_server.url) as locks:
        leader, looked = locks.leader("leading"), threading.Event()
        current = leader.current

        def closed_just_before() -> Any:
            locks.close()
            looked.set()
            return current()

        leader.current = closed_just_before  # type: ignore[method-assign]
        leader.on_change(print)
        assert looked.wait(30)
        wait_for(lambda: not any(each.name == "holdtight-observer" for each in threading.enumerate()))


def test_on_a_quorum_it_leads_and_proclaims_nothing(start_nodes: StartNodes, open_client: OpenClient) -> None:
    client = open_client(start_nodes(3).urls)
    leader = client.locks.leader("leading", label="one")
    term = client.call(leader.campaign)
    term.check()
    assert client.call(leader.current).owner == term.owner
    with pytest.raises(NotSupported, match="one by one"):
        client.call(term.proclaim, "two")
    client.call(term.resign)
    assert client.call(leader.current) is None


def test_on_a_quorum_it_runs_and_is_observed(start_nodes: StartNodes, open_client: OpenClient) -> None:
    client = open_client(start_nodes(3).urls)
    stubborn, leader = Stubborn(client), client.locks.leader("leading", label="one")
    stubborn.go.set()
    seen = list[Any]()
    end = client.call(observing, leader, seen) if not isinstance(client.locks, Locks) else leader.on_change(seen.append)
    wait_for(lambda: seen == [None])
    stubborn.go.clear()
    run = start(lambda: client.call(leader.run, stubborn.work))
    wait_for(lambda: len(seen) >= 2)
    assert seen[1].owner == stubborn.terms[0].owner
    stubborn.go.set()
    leader.stop()
    run.result(30)
    wait_for(lambda: seen[-1] is None)
    end()


async def observing(leader: Any, seen: list[Any]) -> Any:
    return leader.on_change(seen.append)


def test_on_a_quorum_synchronized_excludes(start_nodes: StartNodes, open_client: OpenClient) -> None:
    client = open_client(start_nodes(3).urls)
    seen = list[Any]()

    def look() -> None:
        seen.append(current_lease("job:7").name)

    async def coloured(number: int) -> None:
        look()
        seen.append((await client.locks.inspect("job:7")).locked)

    def plain(number: int) -> None:
        look()
        seen.append(client.locks.inspect("job:7").locked)

    job = client.locks.synchronized("job:{number}")(plain if isinstance(client.locks, Locks) else coloured)
    client.call(job, 7)
    assert seen == ["job:7", True]
    assert not client.call(client.locks.inspect, "job:7").locked


def test_a_block_that_is_left_in_another_thread_gives_its_term_back(private_server: RunningServer) -> None:
    with Locks(private_server.url) as locks:
        leader = locks.leader("leading", ttl=60)
        go = threading.Event()

        def enter() -> None:
            leader.__enter__()
            assert go.wait(60)

        entered = start(enter)
        wait_for(leader.current)
        with pytest.raises(RuntimeError, match="left in another thread"):
            leader.__exit__(None, None, None)
        wait_for(lambda: leader.current() is None, what="the term to be given back")
        go.set()
        entered.result(30)


def test_of_two_blocks_none_is_taken_for_one_that_is_left_in_another_thread(private_server: RunningServer) -> None:
    with Locks(private_server.url) as locks:
        leader, terms, go = locks.leader("leading"), list[Any](), threading.Event()

        def lead() -> None:
            with leader as term:
                terms.append(term)
                assert go.wait(60)

        first = start(lead)
        wait_for(lambda: len(terms) == 1)
        locks.force_release("leading", reason="test")
        second = start(lead)
        wait_for(lambda: len(terms) == 2)
        with pytest.raises(RuntimeError, match="left in another thread"):
            leader.__exit__(None, None, None)
        terms[1].check()
        go.set()
        with pytest.raises(LeaseLost):
            first.result(30)
        second.result(30)
        assert leader.current() is None
