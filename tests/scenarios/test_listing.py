"""All locks of a namespace, seen from outside."""

import os
import socket

import pytest

from holdtight import AsyncLocks, LockInfo
from tests.scenarios.world import World, main_key

AWKWARD = [
    *("plain", "with space", "100%", "{braces}", "}{", "%7B", "%25", "a*b", "a?b", "a[b]c", "back\\slash", "x]", "^-"),
    *("grün", "日本語", "🔒", "a:b:q", "{x}:q", "ht:{inner}", "]*[", "q" * 500),
]


async def listed(client: AsyncLocks, pattern: str = "*") -> list[LockInfo]:
    return [info async for info in client.list(pattern)]


async def names(client: AsyncLocks, pattern: str = "*") -> list[str]:
    return sorted([info.name async for info in client.list(pattern)])


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_every_held_lock_is_listed_once_as_inspect_shows_it(world: World) -> None:
    leases = [await world.lock(f"job:{number}", label=f"no {number}").acquire() for number in range(40)]
    released = await world.lock("job:done").acquire()
    await released.release()
    found = {info.name: info for info in await listed(world.locks())}
    assert sorted(found) == sorted(lease.name for lease in leases)
    for number, lease in enumerate(leases):
        info = found[f"job:{number}"]
        (holder,) = info.holders
        assert (info.kind, info.fence, holder.owner, holder.fence) == (
            lease.kind,
            lease.fence,
            lease.owner,
            lease.fence,
        )
        assert (holder.host, holder.pid, holder.label) == (socket.gethostname(), os.getpid(), f"no {number}")
        assert holder.entered is None
    own = await listed(world.client, "job:7")
    assert [(info.name, info.holders[0].entered) for info in own] == [("job:7", 1)]
    for lease in leases:
        await lease.release()
    assert await listed(world.client) == []


async def test_waiters_are_listed_with_their_lock(world: World) -> None:
    lock = world.lock("busy")
    lease = await lock.acquire()
    (actor,) = await world.line_up(lock, world.lock("busy", of=world.locks(label="next"), wait=20).acquire())
    (info,) = await listed(world.client)
    assert (info.waiting, [waiter.label for waiter in info.waiters]) == (1, ["next"])
    assert info.waiters[0].pid == os.getpid()
    await lease.release()
    await (await actor.result()).release()


async def test_names_of_every_sort_are_found(world: World) -> None:
    leases = [await world.lock(name).acquire() for name in AWKWARD]
    assert await names(world.client) == sorted(AWKWARD)
    for name in AWKWARD:
        if not any(char in name for char in "*?["):
            assert await names(world.client, name) == [name]
        assert name in await names(world.client, name[0].replace("[", "[[]").replace("*", "[*]") + "*")
    for lease in leases:
        await lease.release()


PATTERNS: dict[str, list[str]] = {
    "a*b": ["a*b", "a?b"],
    "a[*]b": ["a*b"],
    "a?b": ["a*b", "a?b"],
    "*[[]*": ["a[b]c", "]*["],
    "back\\*": ["back\\slash"],
    "{*": ["{braces}", "{x}:q"],
    "%7B": ["%7B"],
    "*日*": ["日本語"],
    "PLAIN": [],
    "[": [],
}


async def test_a_pattern_is_that_of_fnmatch(world: World) -> None:
    leases = [await world.lock(name).acquire() for name in AWKWARD]
    found = {pattern: await names(world.client, pattern) for pattern in PATTERNS}
    for lease in leases:
        await lease.release()
    assert found == {pattern: sorted(expected) for pattern, expected in PATTERNS.items()}


async def test_readers_and_permits_are_listed_too(world: World) -> None:
    book, gate = world.client.rwlock("book"), world.client.semaphore("gate", permits=5)
    leases = [await book.read().acquire(), await book.read().acquire(), await gate.acquire(2), await gate.acquire()]
    found = {info.name: info for info in await listed(world.client)}
    assert {name: sorted(holder.n for holder in info.holders) for name, info in found.items()} == {
        "book": [1, 1],
        "gate": [1, 2],
    }
    for lease in leases:
        await lease.release()


async def test_another_namespace_is_not_listed(world: World) -> None:
    other = world.locks(namespace="ht2")
    async with world.lock("here"), world.lock("there", of=other):
        assert await names(world.client) == ["here"]
        assert await names(other) == ["there"]


@pytest.mark.real_server("the memory store has no keys of other programs")
async def test_keys_of_other_programs_are_left_out(world: World) -> None:
    for number in range(1200):
        world.server.command("SET", f"cache:{number}", "x")
    world.server.command("SET", main_key("value"), "not a lock")
    world.server.command("SET", main_key("short"), "x1")
    world.server.command("SET", main_key("digits"), "x1-" + "o" * 24 + "not sixteen digits")
    world.server.command("HSET", main_key("hash"), "field", "value")
    world.server.command("SET", "ht:{%41}", "x1-" + "o" * 24 + "1" * 16)
    world.server.command("SET", b"ht:{\xff}", "x1-" + "o" * 24 + "1" * 16)
    async with world.lock("ours"):
        assert await names(world.client) == ["ours"]
    world.server.command("FLUSHALL")


async def test_listing_leaves_nothing_behind(world: World) -> None:
    before = world.server.keys()
    assert await listed(world.client) == []
    assert [key for key in sorted(world.server.keys()) if key not in before and ":client:" not in key] == []
