"""RedisGuard and AsyncRedisGuard: what the scripts decide on every flavour, both colours in one scenario each."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey

from holdtight import AsyncLocks, Locks, NotSupported, ScriptError, StaleFence, WrongTransaction
from holdtight.fencing import AsyncRedisGuard, RedisGuard
from tests.support.servers import RunningServer


@pytest.fixture(params=["text", "bytes"])
def client(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Any]:
    with redis.Redis(port=server.port, decode_responses=request.param == "text") as client:
        yield client


def test_a_claim_keeps_the_highest_fence_and_refuses_lower_ones(client: Any) -> None:
    guard = RedisGuard(client)
    assert guard.seen("sku:1") is None
    for fence in (9, 9, 10, 2**62):
        guard.claim("sku:1", fence)
    with pytest.raises(StaleFence, match=f"fence 99 is stale, {2**62} has been"):
        guard.claim("sku:1", 99)
    assert guard.seen("sku:1") == 2**62
    guard.claim("a{b}c", 1)
    assert guard.seen("a{b}c") == 1
    assert client.exists("ht:fence:{a%7Bb%7Dc}")


def test_commands_run_only_while_the_stored_fence_is_the_leases_own(client: Any, locks: Locks) -> None:
    guard = RedisGuard(client)
    client.set("stock:1", 100)
    with locks.lock("sku:1") as lease:
        with pytest.raises(WrongTransaction, match="Claim first"):
            guard.write(lease, ("SET", "stock:1", 0))
        guard.claim(lease)
        left = int(client.get("stock:1"))
        replies = guard.write(lease, ("SET", "stock:1", left - 1), ("RPUSH", "sold", "x", b"y"), ("GET", "nothing"))
        assert replies[1:] == [2, None]
        guard.claim("sku:1", lease.fence + 1)  # the next holder is there
        with pytest.raises(StaleFence):
            guard.write(lease, ("SET", "stock:1", 0), ("DEL", "sold"))
    assert int(client.get("stock:1")) == 99
    assert client.llen("sold") == 2


def test_several_names_are_claimed_and_compared_together(client: Any, locks: Locks) -> None:
    guard = RedisGuard(client, namespace="shop")
    guard.claim("b", 2**62)
    with locks.multi("a", "b") as lease:
        with pytest.raises(StaleFence, match="lock 'b'"):
            guard.claim(lease)
        assert guard.seen("a") is None
    assert guard.prune(older_than=0) == 0  # b is far in the future
    with locks.multi("a", "c") as lease:
        guard.claim(lease)
        guard.write(lease, ("SET", "x", 1))
        guard.claim("c", lease.fences["c"] + 1)
        with pytest.raises(StaleFence, match="lock 'c'"):
            guard.write(lease, ("SET", "x", 2))
    RedisGuard(client, namespace="shop2").claim("other", 1)
    assert guard.prune(older_than="1h") == 0
    guard.claim("old", 1)
    assert guard.prune(older_than="1h") == 1
    assert guard.seen("old") is None


def test_a_key_that_is_not_a_fence_is_left_alone(client: Any) -> None:
    guard = RedisGuard(client)
    client.set("ht:fence:{x}", "seven")
    client.rpush("ht:fence:{y}", "seven")
    for name in ("x", "y"):
        with pytest.raises(ScriptError, match="holds something else"):
            guard.claim(name, 8)
    assert guard.prune(older_than=0) == 0
    assert client.exists("ht:fence:{x}", "ht:fence:{y}") == 2


def test_wrong_arguments(client: Any, locks: Locks) -> None:
    with pytest.raises(TypeError, match="client must be a client of redis-py"):
        RedisGuard("redis://")
    guard = RedisGuard(client)
    with locks.lock("x") as lease:
        guard.claim(lease)
        for commands in ((), (("GET",),), ("SET x 1",)):
            with pytest.raises(ValueError, match="command"):
                guard.write(lease, *commands)
    with locks.rwlock("book").read() as lease, pytest.raises(NotSupported):
        guard.claim(lease)


def test_valkey_py(server: RunningServer, locks: Locks) -> None:
    with valkey.Valkey(port=server.port) as client, locks.lock("x") as lease:
        guard = RedisGuard(client)
        guard.claim(lease)
        assert guard.write(lease, ("INCR", "n")) == [1]


def test_the_rights_that_are_listed_are_enough(private_server: RunningServer, locks: Locks) -> None:
    page = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
    rights = page.partition("a `RedisGuard` needs")[2].partition("```")[2].partition("```")[0].split()
    private_server.add_user("shop", "secret", "-@all", "~ht:fence:*", "~stock", *rights, "+incr", "+hello", "+client")
    with redis.Redis(port=private_server.port, username="shop", password="secret") as client, locks.lock("x") as lease:
        guard = RedisGuard(client)
        guard.claim(lease)
        assert guard.write(lease, ("INCR", "stock")) == [1]
        assert guard.prune("1h") == 0


def test_asyncio(server: RunningServer) -> None:
    async def main() -> None:
        async with (
            AsyncLocks(f"memory://{secrets.token_hex(4)}") as locks,
            redis.asyncio.Redis(port=server.port) as client,
        ):
            guard = AsyncRedisGuard(client)
            async with locks.lock("sku:1") as lease:
                with pytest.raises(WrongTransaction):
                    await guard.write(lease, ("INCR", "n"))
                await guard.claim(lease)
                assert await guard.write(lease, ("INCR", "n")) == [1]
                assert await guard.seen("sku:1") == lease.fence
                await guard.claim("sku:1", lease.fence + 1)
                with pytest.raises(StaleFence):
                    await guard.write(lease, ("INCR", "n"))
                with pytest.raises(StaleFence):
                    await guard.claim(lease)
            await client.set("ht:fence:{x}", "seven")
            with pytest.raises(ScriptError):
                await guard.claim("x", 1)
            await guard.claim("old", 1)
            assert await guard.prune(older_than="1h") == 1

    asyncio.run(main())
