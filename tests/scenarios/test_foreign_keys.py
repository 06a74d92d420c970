"""Keys that are not ours are left as they are, and the error that a client raises says so.

`tests/scripts/test_foreign.py` shows which keys a script refuses, and in which situation. This file shows the client's
errors: the scripts have one text, and each server has its own for a key of another type.
"""

from typing import Any

import pytest

from holdtight import AsyncLock, ScriptError
from tests.scenarios.world import World, main_key

pytestmark = pytest.mark.real_server("nobody but us can write into the memory store")

FOREIGN: dict[str, tuple[Any, ...]] = {
    "string": ("SET", "not a lock"),
    "empty": ("SET", ""),
    "lookalike": ("SET", "x1-short"),
    "list": ("RPUSH", "a", "b"),
    "hash": ("HSET", "field", "value"),
    "zset": ("ZADD", 1, "member"),
    "set": ("SADD", "member"),
    "stream": ("XADD", "1-1", "field", "value"),
}


def put(world: World, key: str, found: str) -> None:
    command, *words = FOREIGN[found]
    world.server.command(command, key, *words)


async def refused(world: World, lock: AsyncLock, key: str, *, look: bool = True) -> None:
    before = world.server.command("DUMP", key)
    with pytest.raises(ScriptError, match=r"Nothing was overwritten") as caught:
        await lock.acquire(wait=5)
    assert (caught.value.code, caught.value.name) == ("SCRIPT_ERROR", lock.name)
    if look:
        with pytest.raises(ScriptError):
            await lock.inspect()
    assert world.server.command("DUMP", key) == before
    assert world.server.command("PTTL", key) == -1
    world.server.command("DEL", key)
    lease = await lock.acquire(wait=5)
    await lease.release()


async def test_a_key_of_another_program_is_never_taken_for_a_lock(world: World) -> None:
    for found in FOREIGN:
        key = main_key(found)
        put(world, key, found)
        with pytest.raises(ScriptError):
            await world.lock(found).try_acquire()
        await refused(world, world.lock(found), key)


async def test_a_foreign_key_where_the_waiters_are_kept_is_left_alone(world: World) -> None:
    for found in ("string", "list", "zset", "set", "stream"):
        key = main_key(found) + ":w"
        put(world, key, found)
        await refused(world, world.lock(found), key, look=False)


@pytest.mark.locks_only("permits stand in that key themselves, and are refused")
@pytest.mark.parametrize("place", [":q", ":w"])
async def test_a_foreign_key_in_the_way_of_a_queue_harms_nobody(world: World, place: str) -> None:
    """No waiter can queue there, but the holder keeps its lease, and nothing changes."""
    for found in ("string", "list", "set", "stream"):
        lock = world.lock(found, ttl=20)
        main, key = main_key(found), main_key(found) + place
        async with lock as lease:
            put(world, key, found)
            before = world.server.command("DUMP", key), world.server.command("GET", main)
            with pytest.raises(ScriptError, match="Nothing was overwritten"):
                await world.apart(world.lock(found).acquire(wait=5))
            assert (world.server.command("DUMP", key), world.server.command("GET", main)) == before
            await lease.renew()
            lease.check()
        world.server.command("DEL", key)
