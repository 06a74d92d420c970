"""`list` while the server's table grows and shrinks under it, and on a quorum with failing nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdtight import LockInfo, NotPermitted, QuorumNotReached, Unavailable
from tests.faults.clients import Client, OpenClient
from tests.faults.quorum import Nodes, Side, StartNodes, votes_of, warm
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import FLAVOURS, RunningServer

TAKE = """
for at = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local fence = string.format('%016.0f', 1700000000000000 + at)
  local value = ARGV[3] == '1' and 't1-' .. fence or 'x1-' .. string.format('%024.0f', at) .. fence
  redis.call('SET', 'ht:{' .. ARGV[4] .. at .. '}', value, 'PX', 3600000)
end"""
FILL = "for at = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('SET', 'other:' .. at, 1) end"
EMPTY = "for at = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('DEL', 'other:' .. at) end"
CHUNK = 2000
PART = 5000
PAUSE = 0.005
"""Between two chunks of another program: the server has others to serve, too."""


def listed(client: Client, pattern: str = "*") -> list[LockInfo]:
    """In either colour."""
    found: Any = client.locks.list(pattern)
    if not hasattr(found, "__aiter__"):
        return list(found)

    async def some() -> list[LockInfo]:
        """A part at a time: one call of the client may not take long."""
        part: list[LockInfo] = []
        async for info in found:
            part.append(info)
            if len(part) == PART:
                break
        return part

    infos: list[LockInfo] = []
    while part := client.call(some):
        infos += part
    return infos


def in_chunks(server: RunningServer, script: str, first: int, last: int, *args: Any, pause: float = 0) -> None:
    with server.connect() as raw:
        for at in range(first, last + 1, CHUNK):
            raw.call("EVAL", script, 0, at, min(at + CHUNK - 1, last), *args)
            time.sleep(pause)


@contextmanager
def growing_and_shrinking(server: RunningServer, low: int, high: int) -> Iterator[list[int]]:
    """Other programs add and delete so many keys in turn. The list has the number of turns."""
    over, turns = threading.Event(), [0]

    def churn() -> None:
        while not over.is_set():
            in_chunks(server, FILL, low + 1, high, pause=PAUSE)
            in_chunks(server, EMPTY, low + 1, high, pause=PAUSE)
            turns[0] += 1

    thread = threading.Thread(target=churn, name="another program")
    thread.start()
    try:
        yield turns
    finally:
        over.set()
        thread.join()


def play(server: RunningServer, client: Client, *, held: int, others: int, rounds: int) -> float:
    """Returns the longest time that one list took."""
    in_chunks(server, TAKE, 1, held, "0", "job:")
    in_chunks(server, TAKE, 1, held // 5, "1", "done:")
    in_chunks(server, FILL, 1, others)
    expected, longest = sorted(f"job:{number}" for number in range(1, held + 1)), 0.0
    with growing_and_shrinking(server, others // 2, others) as turns:
        for _ in range(rounds):
            begun = time.monotonic()
            found = [info.name for info in listed(client)]
            longest = max(longest, time.monotonic() - begun)
            assert sorted(found) == expected
        turned = turns[0]
    assert turned or rounds == 1, "the table did not change"
    return longest


@pytest.mark.parametrize("private_server", FLAVOURS[:1], ids=repr, indirect=True)
def test_each_held_lock_comes_once_while_the_table_grows_and_shrinks(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    play(private_server, open_client(private_server.url), held=1000, others=10_000, rounds=8)


@pytest.mark.long
@pytest.mark.parametrize("private_server", FLAVOURS, ids=repr, indirect=True)
def test_a_hundred_thousand_locks_among_a_million_other_keys(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    took = play(private_server, open_client(private_server.url), held=100_000, others=1_000_000, rounds=3)
    print(f"\n100,000 locks among a million other keys that come and go: {took:.1f} s")


def test_a_server_that_goes_away_meanwhile_is_unavailable(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url)
    leases = [client.acquire(f"job:{number}") for number in range(3)]
    assert len(listed(client)) == 3
    proxy.refuse()
    proxy.cut()
    with pytest.raises(Unavailable):
        listed(client)
    proxy.heal()
    assert len(listed(client)) == 3
    for lease in leases:
        client.release(lease)


def test_a_connection_that_died_idle_is_replaced(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url)
    lease = client.acquire("job")
    proxy.cut()
    assert [info.name for info in listed(client)] == ["job"]
    client.release(lease)


def test_without_the_right_to_scan_the_error_says_so(private_server: RunningServer, open_client: OpenClient) -> None:
    private_server.command("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-scan")
    client = open_client(f"redis://locker:secret@127.0.0.1:{private_server.port}/0")
    with pytest.raises(NotPermitted, match="scan"):
        listed(client)


# Quorum


def test_a_quorum_lists_what_a_majority_holds(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    leases = [client.acquire(f"job:{number}", label="mine") for number in range(12)]
    reader = client.call(client.locks.rwlock("book").read().acquire)
    nodes.servers[0].command("SET", "ht:{lonely}", "x1-" + "o" * 24 + "1" * 16, "PX", 60_000)  # one node alone
    found = {info.name: info for info in listed(client)}
    assert sorted(found) == sorted([*(lease.name for lease in leases), "book"])
    for lease in leases:
        (holder,) = found[lease.name].holders
        assert (holder.owner, holder.fence, holder.label, holder.entered) == (lease.owner, lease.fence, "mine", 1)
        assert holder.pid is not None
        assert set(found[lease.name].nodes or {}) == set(nodes.urls)
    for lease in [*leases, reader]:
        client.release(lease)
    assert [info.name for info in listed(client, "job:*")] == []


@pytest.mark.parametrize("silently", [True, False], ids=["silent", "refusing"])
def test_a_quorum_lists_without_a_minority_and_not_without_a_majority(
    start_nodes: StartNodes, open_client: OpenClient, silently: bool
) -> None:
    nodes = start_nodes(3)
    with Side(nodes) as side:
        client = open_client(side.urls)
        warm(client, nodes)
        leases = [client.acquire(f"job:{number}") for number in range(3)]
        for lease in leases:
            wait_for(lambda name=lease.name: all(votes_of(nodes, name)))  # type: ignore[misc]
        side.cut_off([0], silently=silently)
        assert sorted(info.name for info in listed(client)) == ["job:0", "job:1", "job:2"]
        side.cut_off([1], silently=silently)
        with pytest.raises(QuorumNotReached):
            listed(client)
        side.heal()
        for lease in leases:
            client.release(lease)
