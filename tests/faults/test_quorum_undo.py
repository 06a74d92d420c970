"""Whatever happens to the caller or to a reply: no vote is left behind, and no owner holds what another has."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, cast

import pytest

from holdtight import AsyncLocks, Backoff, Locks, LossReason, QuorumNotReached
from holdtight.aio.quorum_driver import QuorumTransport
from holdtight.stores.redis.quorum_store import RESIGN, VOTE
from tests.faults.clients import OpenClient, asks
from tests.faults.quorum import Nodes, Side, votes_of
from tests.faults.quorum import warm as warm_client
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, StartServer


def free(nodes: Nodes, name: str) -> bool:
    return not any(votes_of(nodes, name))


def test_cancelled_at_any_moment_it_leaves_no_vote_behind(nodes: Nodes) -> None:
    chance = random.Random(7)

    async def storm() -> int:
        done = 0
        async with AsyncLocks(nodes.urls, ttl=30) as locks:
            async with locks.lock("a"):
                pass
            for _ in range(5000):
                if done == 40:
                    break
                task = asyncio.create_task(locks.lock("a").acquire(wait=5))
                await asyncio.sleep(chance.uniform(0, 0.002))
                if not task.cancel():
                    await task.result().release()
                    continue
                try:
                    lease = await task
                except asyncio.CancelledError:
                    done += 1
                else:
                    await lease.release()
            async with locks.lock("a", wait=5):  # within far less than the ttl
                pass
        return done

    assert asyncio.run(storm()) == 40
    wait_for(lambda: free(nodes, "a"))


def test_cancelled_while_connecting_it_leaves_no_vote_behind(nodes: Nodes) -> None:
    async def attempt(seconds: float) -> None:
        async with AsyncLocks(nodes.urls, ttl=30) as locks:
            try:
                async with asyncio.timeout(seconds):
                    lease = await locks.lock("a").acquire(wait=5)
            except TimeoutError:
                return
            await lease.release()

    for step in range(25):
        asyncio.run(attempt(step / 2000))
    wait_for(lambda: free(nodes, "a"))


def test_interrupted_at_any_moment_of_a_vote_it_leaves_none_behind(nodes: Nodes) -> None:
    """Another owner has three nodes, so that every round has two votes to give back."""
    chance = random.Random(11)
    somebody = b"x1-" + b"s" * 24 + b"1700000000000000"
    for server in nodes.servers[:3]:
        server.command("SET", "ht:{a}", somebody, "PX", 100_000)
    others = Nodes(nodes.servers[3:])
    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        with Locks(nodes.urls, ttl=30, retry=Backoff(first="1ms", cap="2ms")) as locks:
            for _ in range(60):
                timer = threading.Timer(chance.uniform(0.001, 0.02), os.kill, (os.getpid(), signal.SIGUSR1))

                def wait(timer: threading.Timer = timer) -> None:
                    timer.start()
                    locks.lock("a").acquire(wait=30)

                with pytest.raises(KeyboardInterrupt):
                    wait()
                timer.join()
            wait_for(lambda: free(others, "a"), within=8)  # the keeper tries for five seconds; the ttl is thirty
    finally:
        signal.signal(signal.SIGUSR1, before)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Interrupts this thread from another."""
    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def warm(locks: Locks, nodes: Nodes) -> None:
    """Waits until it has a connection to every node, so that one broadcast asks all."""

    def on_all() -> bool:
        lease = locks.lock("warm").acquire(wait=5)
        until = time.monotonic() + 0.1
        while not (found := all(votes_of(nodes, "warm"))) and time.monotonic() < until:
            pass
        lease.release()
        return found

    wait_for(on_all)
    wait_for(lambda: free(nodes, "warm"))


def test_interrupted_while_all_nodes_are_asked_at_once_it_leaves_no_vote_behind(nodes: Nodes) -> None:
    """Two have voted; three have not got the request, and get it when it has been given up."""
    with Side(nodes) as side, Locks(side.urls, ttl=30) as locks, interrupts() as interrupt:
        warm(locks, nodes)
        for index in (0, 1, 2):
            side.proxies[index].pause("requests")

        def when_two_have_voted() -> None:
            wait_for(lambda: len([vote for vote in votes_of(nodes, "a") if vote]) == 2)
            interrupt()

        watcher = threading.Thread(target=when_two_have_voted)
        watcher.start()
        with pytest.raises(KeyboardInterrupt):
            locks.lock("a").acquire(wait=30)
        watcher.join()
        side.heal()
        wait_for(lambda: free(nodes, "a"), within=8)  # the keeper tries for five seconds; the ttl is thirty
        locks.lock("a").acquire(wait=5).release()


def test_interrupted_while_all_nodes_are_told_of_the_release_it_leaves_no_vote_behind(nodes: Nodes) -> None:
    with Side(nodes) as side, Locks(side.urls, ttl=30) as locks, interrupts() as interrupt:
        warm(locks, nodes)
        lease = locks.lock("a").acquire()
        wait_for(lambda: all(votes_of(nodes, "a")))
        for index in (0, 1, 2):
            side.proxies[index].pause("requests")

        def when_two_have_heard() -> None:
            wait_for(lambda: len([vote for vote in votes_of(nodes, "a") if vote]) == 3)
            interrupt()

        watcher = threading.Thread(target=when_two_have_heard)
        watcher.start()
        with pytest.raises(KeyboardInterrupt):
            lease.release()
        watcher.join()
        for index in (0, 1, 2):
            side.proxies[index].cut()  # requests in flight are lost
        side.heal()
        wait_for(lambda: free(nodes, "a"), within=8)


def test_interrupted_before_any_node_is_told_of_the_release_it_leaves_no_vote_behind(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Locks(nodes.urls, ttl=30) as locks:
        warm(locks, nodes)
        lease = locks.lock("a").acquire()
        monkeypatch.setattr(locks.groups, "take_ready", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            lease.release()
        wait_for(lambda: free(nodes, "a"), within=8)  # the keeper tries for five seconds; the ttl is thirty


def test_interrupted_between_two_nodes_that_are_told_of_the_release_it_leaves_no_vote_behind(nodes: Nodes) -> None:
    """Two nodes have got the request when the interrupt comes, the third may have, and two have not."""
    with Locks(nodes.urls, ttl=30) as locks:
        warm(locks, nodes)
        for pool in locks.groups.pools:
            pool.knows.add(RESIGN)  # the nodes know the script; if the client knows that, it uses one broadcast
        lease = locks.lock("a").acquire()
        (group,) = locks.groups.idle
        connection, _, link, owe = group.senders[2]
        group.senders[2] = (connection, _interrupt, link, owe)
        with pytest.raises(KeyboardInterrupt):
            lease.release()
        wait_for(lambda: free(nodes, "a"), within=8)


def test_nodes_that_refuse_the_release_are_told_again_by_the_keeper(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=30)
    for _ in range(5):
        client.release(client.acquire("a"))
    lease = client.acquire("a")
    wait_for(lambda: all(votes_of(nodes, "a")))
    for server in nodes.servers[:3]:
        server.command("ACL", "SETUSER", "default", "-@scripting")
    with pytest.raises(QuorumNotReached):
        client.release(lease)
    for server in nodes.servers[:3]:
        server.command("ACL", "SETUSER", "default", "+@scripting")
    wait_for(lambda: free(nodes, "a"), within=8)


def test_cancelled_while_nodes_refuse_the_release_it_is_seen_through_by_the_keeper(nodes: Nodes) -> None:
    """No caller is left to read that three nodes refuse."""

    async def scene(side: Side) -> None:
        async with AsyncLocks(side.urls, ttl=30) as locks:
            async with locks.lock("a"), asyncio.timeout(10):
                while not cast(QuorumTransport, locks.transport()).all_ready():
                    await asyncio.sleep(0.001)
            lease = await locks.lock("a").acquire()
            await asyncio.to_thread(wait_for, lambda: all(votes_of(nodes, "a")))
            for server, proxy in zip(nodes.servers[:3], side.proxies, strict=False):
                proxy.clear()
                proxy.pause("replies")
                server.command("ACL", "SETUSER", "default", "-@scripting")
            release = asyncio.create_task(lease.release())
            for proxy in side.proxies[:3]:
                await asyncio.to_thread(proxy.wait_for_request, asks(RESIGN))
            release.cancel()
            with pytest.raises(asyncio.CancelledError):
                await release
            for server in nodes.servers[:3]:
                server.command("ACL", "SETUSER", "default", "+@scripting")
            side.heal()
            wait_for(lambda: free(nodes, "a"), within=8)

    with Locks(nodes.urls) as others:
        warm(others, nodes)  # all nodes know the scripts: no request is repeated late
    with Side(nodes) as side:
        asyncio.run(scene(side))


def test_replies_that_get_lost_on_any_two_nodes_change_nothing(nodes: Nodes, open_client: OpenClient) -> None:
    chance = random.Random(3)
    with Side(nodes) as side:
        client, other = open_client(side.urls, ttl=2), open_client(nodes.urls, ttl=2)
        client.release(client.acquire("a"))
        for _ in range(6):
            for index in chance.sample(range(5), 2):
                side.proxies[index].swallow_reply(asks(chance.choice([VOTE, RESIGN])), cut=True)
            lease = client.acquire("a", wait=10)
            assert other.try_acquire("a") is None
            with suppress(QuorumNotReached):  # those two may still have the vote: the keeper asks them again
                client.release(lease)
            second = other.acquire("a", wait=10)
            assert second.fence > lease.fence
            other.release(second)
            side.heal()


def test_votes_that_come_after_the_release_are_refused(nodes: Nodes, open_client: OpenClient) -> None:
    """A node got the vote late, on a connection that had been given up, after the release."""
    with Side(nodes) as side:
        client, other = open_client(side.urls, ttl=30), open_client(nodes.urls)
        client.release(client.acquire("a"))
        wait_for(lambda: free(nodes, "a"))
        side.proxies[0].pause("requests")
        lease = client.acquire("a", wait=5)
        client.release(lease)
        side.proxies[0].resume("requests")
        wait_for(lambda: free(nodes, "a"))
        time.sleep(0.2)
        assert free(nodes, "a")
        other.release(other.acquire("a", wait=2))


def test_a_node_that_voted_after_the_grant_is_told_of_the_release_however_late_that_is(
    nodes: Nodes, open_client: OpenClient
) -> None:
    """Its answer came when no caller waited for it, and the request cannot be in flight any more."""
    with Side(nodes) as side:
        client = open_client(side.urls)
        warm_client(client, nodes)
        for index in (0, 1):
            side.proxies[index].pause("replies")
        lease = client.try_acquire("a", ttl=6, renew=False)
        assert lease is not None
        assert len(lease.nodes) == 3
        wait_for(lambda: all(votes_of(nodes, "a")))
        side.heal()
        time.sleep(2.1)  # more than a third of the ttl, which a node may take to vote when no caller waits
        client.release(lease)
        wait_for(lambda: free(nodes, "a"), within=2)  # its time would end only after that


def test_nodes_that_have_forgotten_the_scripts_are_sent_them_again(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    for _ in range(5):
        client.release(client.acquire("a"))
    for server in nodes.servers:
        server.command("SCRIPT", "FLUSH")
    lease = client.acquire("a", wait=0.5)
    for server in nodes.servers:
        server.command("SCRIPT", "FLUSH")
    client.release(lease)
    wait_for(lambda: free(nodes, "a"))


def test_a_forked_child_owns_nothing_of_a_quorum_and_can_use_it(nodes: Nodes) -> None:
    with Locks(nodes.urls, ttl=2) as locks:
        lease = locks.lock("a").acquire()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            told = "failed"
            try:
                lost = lease.lost and lease.reason is LossReason.FORKED
                taken = locks.lock("a").try_acquire() is None
                locks.lock("b").acquire(wait=5).release()
                told = f"{lost} {taken}"
            finally:
                os.write(writer, told.encode())
                os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(reader, 100) == b"True True"
        os.close(reader)
        os.close(writer)
        assert not lease.lost
        lease.release()


def test_servers_of_several_kinds_make_a_quorum(start_server: StartServer, open_client: OpenClient) -> None:
    kinds = [flavour for flavour in FLAVOURS if flavour.missing() is None]
    nodes = Nodes([start_server(flavour=flavour) for flavour in kinds])
    nodes.bless()
    client = open_client(nodes.urls, ttl=3)
    lease = client.acquire("a")
    wait_for(lambda: len(lease.nodes) == len(kinds))
    client.release(lease)
    client.release(client.call(client.locks.rwlock("b").read().acquire))


def test_the_rights_that_are_listed_are_enough_for_a_quorum(nodes: Nodes, open_client: OpenClient) -> None:
    page = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
    found = re.search(r"^ACL SETUSER .*?(?=^```)", page, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    for server in nodes.servers:
        server.command(*found[0].split())
        server.command("ACL", "SETUSER", "locker", "+xadd")  # for `bless`, as the page says
    urls = [f"redis://locker:secret@127.0.0.1:{server.port}/0" for server in nodes.servers]
    client, other = open_client(urls, ttl=3), open_client(urls)
    client.call(client.locks.bless)
    lease = client.acquire("a")
    wait_for(lambda: len(lease.nodes) == 5)
    assert other.try_acquire("a") is None
    assert client.call(client.locks.inspect, "a").locked
    client.release(lease)
    client.release(client.call(client.locks.rwlock("a").read().acquire))
    for server in nodes.servers:
        assert server.command("ACL", "LOG") == []


@pytest.mark.parametrize("colour", ["sync"], indirect=True)
def test_pickled_it_is_the_same_quorum(nodes: Nodes, open_client: OpenClient) -> None:
    import pickle

    client = open_client(nodes.urls)
    lock = pickle.loads(pickle.dumps(client.locks.lock("a")))
    lock.acquire(wait=5).release()
