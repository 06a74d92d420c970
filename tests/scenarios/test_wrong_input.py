"""Input that is wrong is refused before anything is sent; keys that are not ours are left as they are."""

from datetime import timedelta
from typing import Any

import pytest

from holdtight import AsyncLease, AsyncLock, LockTimeout, NotSupported, ScriptError
from tests.scenarios.world import World, main_key

NAMES: dict[str, Any] = {
    "empty": "",
    "too long": "x" * 513,
    "too long in bytes": "ü" * 257,
    "newline": "a\nb",
    "nul": "a\0b",
    "escape": "\x1b[1m",
    "delete": "a\x7f",
    "c1 control": "a\x85b",
    "lone surrogate": "a\ud800",
    "bytes": b"name",
    "number": 1,
    "none": None,
    "list": ["a"],
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_bad_name_is_refused_unsent(world: World, name: Any) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match="name"):
        world.lock(name)
    with pytest.raises((ValueError, TypeError), match="name"):
        await world.client.inspect(name)
    assert sent() == 0


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "ttl 0": ({"ttl": 0}, "ttl"),
    "ttl negative": ({"ttl": -1}, "ttl"),
    "ttl too short": ({"ttl": 0.099}, r"ttl.*renew=False"),
    "ttl too short unrenewed": ({"ttl": 0.009, "renew": False}, "ttl"),
    "ttl too long": ({"ttl": "169h"}, "ttl"),
    "ttl nan": ({"ttl": float("nan")}, "ttl"),
    "ttl infinite": ({"ttl": float("inf")}, "ttl"),
    "ttl huge": ({"ttl": 10**400}, "ttl"),
    "ttl bool": ({"ttl": True}, "ttl"),
    "ttl none": ({"ttl": None}, "ttl"),
    "ttl words": ({"ttl": "soon"}, "ttl"),
    "ttl without unit": ({"ttl": "5"}, "ttl"),
    "ttl other unit": ({"ttl": "5d"}, "ttl"),
    "ttl bytes": ({"ttl": b"5s"}, "ttl"),
    "ttl negative timedelta": ({"ttl": timedelta(seconds=-1)}, "ttl"),
    "wait negative": ({"wait": -0.1}, "wait"),
    "wait nan": ({"wait": float("nan")}, "wait"),
    "wait infinite": ({"wait": float("inf")}, "wait"),
    "wait bool": ({"wait": False}, "wait"),
    "wait words": ({"wait": "forever"}, "wait"),
    "wait list": ({"wait": [1]}, "wait"),
    "max_hold 0": ({"max_hold": 0}, "max_hold"),
    "max_hold negative": ({"max_hold": -5}, "max_hold"),
    "max_hold nan": ({"max_hold": float("nan")}, "max_hold"),
    "max_hold bool": ({"max_hold": True}, "max_hold"),
    "label number": ({"label": 5}, "label"),
    "label too long": ({"label": "x" * 129}, "label"),
    "label newline": ({"label": "a\nb"}, "label"),
    "reentrant number": ({"reentrant": 1}, "reentrant"),
    "renew none": ({"renew": None}, "renew"),
}


@pytest.mark.parametrize(("options", "named"), OPTIONS.values(), ids=OPTIONS)
async def test_a_bad_option_is_refused_unsent(world: World, options: dict[str, Any], named: str) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match=named):
        world.lock("fine", **options)
    if options.keys() <= {"ttl", "wait", "label"}:
        with pytest.raises((ValueError, TypeError), match=named):
            world.locks(**options)
    assert sent() == 0


async def test_a_bad_argument_to_a_call_is_refused_unsent(world: World) -> None:
    sent = world.tap()
    lock = world.lock(ttl=20)
    lease = await lock.acquire()
    before = sent()
    for wait in (-1, float("nan"), True, "x", "-1s"):
        with pytest.raises(ValueError, match="wait"):
            await lock.acquire(wait=wait)
        with pytest.raises(ValueError, match="wait"):
            lock.hold(wait=wait)
        with pytest.raises(ValueError, match="timeout"):
            await lease.wait_lost(wait)
    for ttl in (0, -1, float("inf"), False, "8 days", 0.05):
        with pytest.raises(ValueError, match="ttl"):
            await lease.renew(ttl)
    for ttl in (0, 0.009, "169h", True):
        with pytest.raises(ValueError, match="ttl"):
            await lease.detach(ttl)
    with pytest.raises(TypeError, match="callable"):
        lease.on_lost("not a function")  # type: ignore[arg-type]
    assert sent() == before
    lease.check()
    await lease.release()


async def test_durations_are_written_in_many_ways(world: World) -> None:
    written = ((5, 5), (0.5, 0.5), ("250ms", 0.25), ("2m", 120), (timedelta(seconds=3), 3), ("1.5s", 1.5))
    for ttl, seconds in written:
        async with world.lock(ttl=ttl) as lease:
            assert lease.ttl == seconds
    async with world.lock():
        for wait in ("0s", timedelta(0), 0.0, "20ms"):
            with pytest.raises(LockTimeout):
                await world.apart(world.lock().acquire(wait=wait))


SETTINGS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "namespace empty": ({"namespace": ""}, ValueError),
    "namespace brackets": ({"namespace": "a{b}"}, ValueError),
    "namespace number": ({"namespace": 5}, TypeError),
    "max_waiters 0": ({"max_waiters": 0}, ValueError),
    "max_waiters float": ({"max_waiters": 1.5}, TypeError),
    "max_connections 0": ({"max_connections": 0}, ValueError),
    "connect_timeout 0": ({"connect_timeout": 0}, ValueError),
    "drift": ({"drift": 0.1}, TypeError),
    "retry": ({"retry": 3}, TypeError),
    "tls": ({"tls": True}, TypeError),
    "on_unavailable": ({"on_unavailable": "ignore"}, ValueError),
    "acks": ({"acks": 1}, NotSupported),
    "credentials": ({"credentials": 5}, TypeError),
    "unknown": ({"timeout": 5}, TypeError),
}


@pytest.mark.parametrize(("options", "error"), SETTINGS.values(), ids=SETTINGS)
async def test_bad_settings_are_refused(world: World, options: dict[str, Any], error: type[Any]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        world.locks(**options)


TARGETS = ("ftp://host", "localhost:6379", "redis://host:port", "redis://host/first", "", 5, b"redis://")


@pytest.mark.parametrize("target", TARGETS, ids=repr)
async def test_a_bad_target_is_refused(world: World, target: object) -> None:
    with pytest.raises((ValueError, TypeError), match="target"):
        world.locks(target)


# Keys of somebody else

foreign_keys = pytest.mark.real_server("nobody but us can write into the memory store")


def foreign(found: str, key: str) -> tuple[Any, ...]:
    commands: dict[str, tuple[Any, ...]] = {
        "string": ("SET", key, "not a lock"),
        "empty": ("SET", key, ""),
        "lookalike": ("SET", key, "x1-short"),
        "list": ("RPUSH", key, "a", "b"),
        "hash": ("HSET", key, "field", "value"),
        "zset": ("ZADD", key, 1, "member"),
        "set": ("SADD", key, "member"),
        "stream": ("XADD", key, "1-1", "field", "value"),
    }
    return commands[found]


async def refused(world: World, lock: AsyncLock, key: str, *, look: bool = True) -> None:
    before = world.server.command("DUMP", key)
    lease: AsyncLease | None
    with pytest.raises(ScriptError, match=r"Nothing was overwritten") as caught:
        lease = await lock.acquire(wait=5)
    assert (caught.value.code, caught.value.name) == ("SCRIPT_ERROR", lock.name)
    if look:
        with pytest.raises(ScriptError):
            await lock.inspect()
    assert world.server.command("DUMP", key) == before
    assert world.server.command("PTTL", key) == -1
    world.server.command("DEL", key)
    lease = await lock.acquire(wait=5)
    await lease.release()


@foreign_keys
@pytest.mark.parametrize("found", ["string", "empty", "lookalike", "list", "hash", "zset", "set", "stream"])
async def test_a_key_of_another_foundis_never_taken_for_a_lock(world: World, found: str) -> None:
    key = main_key("thing")
    world.server.command(*foreign(found, key))
    with pytest.raises(ScriptError):
        await world.lock().try_acquire()
    await refused(world, world.lock(), key)


@foreign_keys
@pytest.mark.parametrize("found", ["string", "list", "zset", "set", "stream"])
async def test_a_foreign_key_where_the_waiters_are_kept_is_left_alone(world: World, found: str) -> None:
    key = main_key("thing") + ":w"
    world.server.command(*foreign(found, key))
    await refused(world, world.lock(), key, look=False)


@pytest.mark.locks_only("permits stand in that key themselves, and are refused")
@foreign_keys
@pytest.mark.parametrize("place", [":q", ":w"])
@pytest.mark.parametrize("found", ["string", "list", "set", "stream"])
async def test_a_foreign_key_in_the_way_of_a_queue_harms_nobody(world: World, found: str, place: str) -> None:
    """Nobody can wait there, but the holder is well, and everything is as it was."""
    lock = world.lock(ttl=20)
    key = main_key("thing") + place
    async with lock as lease:
        world.server.command(*foreign(found, key))
        before = world.server.command("DUMP", key), world.server.command("GET", main_key("thing"))
        with pytest.raises(ScriptError, match="Nothing was overwritten"):
            await world.apart(world.lock().acquire(wait=5))
        assert (world.server.command("DUMP", key), world.server.command("GET", main_key("thing"))) == before
        await lease.renew()
        lease.check()
    world.server.command("DEL", key)
