"""`once` when processes fire together, are killed or paused between any two requests, or lose a reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks, NotSupported, Run, Skipped, Unavailable
from holdtight.stores.redis import script
from holdtight.stores.redis.records import BEGIN, END
from tests.faults.clients import Client, OpenClient, asks, start
from tests.faults.jobs import fleet_member, once_program
from tests.faults.quorum import StartNodes
from tests.support.processes import Child, StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


@pytest.fixture(autouse=True)
def known_scripts(request: pytest.FixtureRequest) -> None:
    """A reply that is lost is that of the script, not NOSCRIPT."""
    if "private_server" in request.fixturenames:
        for each in (BEGIN, END):
            request.getfixturevalue("private_server").command("SCRIPT", "LOAD", each.body)


POINTS = {"before the record": BEGIN, "before the end": END, "before the release": script.RELEASE}


def fence_of(run: Run | None) -> int:
    assert run is not None
    return run.fence


def fired(children: list[Child], word: str) -> list[str]:
    for child in children:
        child.send(word)
    return [child.wait_line() for child in children]


def test_eight_processes_fire_together_and_one_runs(private_server: RunningServer, start_child: StartChild) -> None:
    children = [start_child(fleet_member, private_server.url) for _ in range(8)]
    for child in children:
        child.expect("ready", within=60)
    for number in range(20):
        said = fired(children, f"day-{number}")
        assert said.count(f"ran day-{number}") == 1
        assert {*said} <= {f"ran day-{number}", "running", "done"}


@pytest.mark.long
def test_140_occurrences_run_once_each_while_processes_are_paused(
    private_server: RunningServer, start_child: StartChild
) -> None:
    children = [start_child(fleet_member, private_server.url) for _ in range(8)]
    for child in children:
        child.expect("ready", within=60)
    for number in range(140):
        slow = children[number % 8]
        for child in children:
            child.send(f"day-{number}")
        slow.pause()
        said = [child.wait_line() for child in children if child is not slow]
        slow.resume()
        said.append(slow.wait_line())
        assert said.count(f"ran day-{number}") <= 1
        if f"ran day-{number}" not in said:  # the paused one had the lock, and was skipped or lost it
            assert any(line == f"ran day-{number}" for line in fired(children, f"day-{number}"))


@pytest.mark.parametrize("policy", ["wait", "retry"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("colour", ["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def test_killed_between_any_two_requests(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild, point: str, policy: Any, colour: str
) -> None:
    """The record decides: a start counts under "wait", a return under "retry"; nothing else does."""
    child = start_child(once_program, proxy.url, colour, policy)
    child.expect("ready", within=60)
    held = proxy.hold_request(asks(POINTS[point]))
    child.send("go")
    held.wait()
    child.kill()
    started = "body" in child.lines()
    assert started is (point != "before the record")
    counts = started if policy == "wait" else point == "before the release"
    ran = list[int]()
    with Locks(private_server.url) as locks:

        @locks.once("job", at_least=60, after_failure=policy, wait=20)
        def job() -> None:
            ran.append(1)

        if point == "before the end":
            with locks.lock("job", wait=20):
                run = job.last()
                assert run is not None
                assert (run.state, run.pid, run.seconds) == ("failed", child.pid, None)
                assert "its lease ended before the run did" in str(run.error)
        got = job()
        assert ran == ([] if counts else [1])
        assert isinstance(got, Skipped) is counts


@pytest.mark.parametrize("policy", ["wait", "retry"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("colour", ["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def test_paused_between_any_two_requests(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild, point: str, policy: Any, colour: str
) -> None:
    """The pause is longer than the lease. What the paused process sends afterwards changes nothing."""
    child = start_child(once_program, proxy.url, colour, policy)
    child.expect("ready", within=60)
    held = proxy.hold_request(asks(POINTS[point]))
    child.send("go")
    held.wait()
    child.pause()
    started = point != "before the record"
    if started:
        child.expect("body")
    counts = started if policy == "wait" else point == "before the release"
    ran = list[int]()
    with Locks(private_server.url) as locks:

        @locks.once("job", at_least=60, after_failure=policy, wait=20)
        def job() -> None:
            ran.append(1)

        with locks.lock("job", wait=20):
            pass  # its lease has ended
        assert isinstance(job(), Skipped) is counts
        before = fence_of(job.last())
        child.resume()
        held.release()
        child.wait(30)
        assert "body" not in child.lines(), "none starts late"
        assert fence_of(job.last()) == before, "nor is another's record changed"
        assert isinstance(job(), Skipped)
    assert ran == ([] if counts else [1])


@pytest.mark.parametrize("policy", ["wait", "retry"])
@pytest.mark.parametrize("colour", ["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def test_paused_until_the_lease_has_ended_before_the_answer_is_read_that_the_record_is_written(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild, policy: Any, colour: str
) -> None:
    """The body must not start without the lease, and the record of such a run does not count."""
    child = start_child(once_program, proxy.url, colour, policy)
    child.expect("ready", within=60)
    held = proxy.hold_reply(asks(BEGIN))
    child.send("go")
    held.wait()
    child.pause()
    held.release()  # so that the answer is there when the process goes on
    ran = list[int]()
    with Locks(private_server.url) as locks:
        with locks.lock("job", wait=20):
            pass  # its lease has ended
        child.resume()
        child.wait(30)
        assert "body" not in child.lines()

        @locks.once("job", at_least=60, after_failure=policy)
        def job() -> None:
            ran.append(1)

        wait_for(lambda: job.last() is None, what="the record to go")
        assert job() is None
    assert ran == [1]


@pytest.mark.parametrize("policy", ["wait", "retry"])
@pytest.mark.parametrize("point", ["before the record", "before the end"])
def test_cancelled_between_any_two_requests(
    private_server: RunningServer, proxy: Proxy, point: str, policy: Any
) -> None:
    asyncio.run(cancelled(proxy, point, policy))


async def cancelled(proxy: Proxy, point: str, policy: Any) -> None:
    """A body that did not start leaves no record, one that has returned leaves that."""
    ran = list[int]()
    async with AsyncLocks(proxy.url) as locks:

        @locks.once("job", at_least=60, after_failure=policy, wait=20)
        async def job() -> None:
            ran.append(1)

        await locks.lock("other").locked()
        held = proxy.hold_request(asks(POINTS[point]))
        call = asyncio.create_task(job())
        await asyncio.to_thread(held.wait)
        call.cancel()
        await asyncio.sleep(0)
        held.release()
        with pytest.raises(asyncio.CancelledError):
            await call
        started = point == "before the end"
        assert ran == [1] * started
        assert isinstance(await job(), Skipped) is started
        assert ran == [1]


def test_a_lock_that_is_lost_before_the_record_runs_nothing(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client, ran = open_client(proxy.url), list[int]()
    job = made(client, lambda: ran.append(1))
    client.call(client.locks.lock("other").locked)  # so that it is connected
    held = proxy.hold_request(asks(BEGIN))
    call = start(lambda: client.call(job))
    held.wait()
    with Locks(private_server.url) as others:
        others.force_release("job", reason="test")
    held.release()
    with pytest.raises(LeaseLost):
        call.result(30)
    assert ran == []
    assert client.call(job.last) is None


def test_a_lock_that_is_lost_while_the_record_is_asked_for_again_leaves_no_record(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    """The first request has written it, and its reply was lost; the second is answered that the lock is not ours."""
    client, ran = open_client(proxy.url), list[int]()
    job = made(client, lambda: ran.append(1))
    client.call(client.locks.lock("other").locked)  # so that it is connected
    lost = proxy.swallow_reply(asks(BEGIN))
    call = start(lambda: client.call(job))
    lost.wait()
    with Locks(private_server.url) as others:
        others.force_release("job", reason="test")
    with pytest.raises(LeaseLost):
        call.result(30)
    assert ran == []
    wait_for(lambda: client.call(job.last) is None, what="the record to go")


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
def test_a_lost_reply_to_the_record_starts_the_body_once(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    client, ran = open_client(proxy.url), list[int]()
    job = made(client, lambda: ran.append(1))
    lost = proxy.swallow_reply(asks(BEGIN), cut=cut)
    client.call(job)
    lost.wait()
    assert ran == [1]
    assert client.call(job).why == "done"


def test_a_record_that_cannot_be_written_keeps_the_body_from_running_and_is_taken_back(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    """The request arrives, three times, and no reply does."""
    client, ran = open_client(proxy.url, connect_timeout=0.3), list[int]()
    job = made(client, lambda: ran.append(1))
    lost = [proxy.swallow_reply(asks(BEGIN), cut=True) for _ in range(3)]
    with pytest.raises(Unavailable):
        client.call(job)
    assert all(order.done for order in lost)
    assert ran == []
    wait_for(lambda: private_server.command("EXISTS", "ht:{job}:o") in (0, "0", b"0"), what="the record to go")
    client.call(job)
    assert ran == [1]


def made(client: Client, body: Any) -> Any:
    if isinstance(client.locks, Locks):
        return client.locks.once("job", at_least=60)(lambda: body())

    async def coloured() -> None:
        body()

    return client.locks.once("job", at_least=60)(coloured)


def test_a_quorum_refuses_records_and_runs_what_has_none(start_nodes: StartNodes, open_client: OpenClient) -> None:
    client = open_client(start_nodes(3).urls)
    with pytest.raises(NotSupported, match="share no data"):
        made(client, print)
    ran = list[int]()
    if isinstance(client.locks, Locks):
        client.locks.once("job")(lambda: ran.append(1))()
    else:

        async def job() -> None:
            ran.append(1)

        client.call(client.locks.once("job")(job))
    assert ran == [1]
