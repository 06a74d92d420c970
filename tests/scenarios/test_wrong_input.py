"""The client refuses wrong input before it sends anything.

The scenarios play in memory. One test plays all wrong names and options once more on a server and on a quorum
that do not answer, and that notice a connection attempt.
"""

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from holdtight import LockTimeout
from tests.scenarios.colours import Colour
from tests.scenarios.world import KINDS, World
from tests.support.memory import MEMORY

in_memory = pytest.mark.played(server=[MEMORY])

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


@in_memory
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


@in_memory
@pytest.mark.parametrize(("options", "named"), OPTIONS.values(), ids=OPTIONS)
async def test_a_bad_option_is_refused_unsent(world: World, options: dict[str, Any], named: str) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match=named):
        world.lock("fine", **options)
    if options.keys() <= {"ttl", "wait", "label"}:
        with pytest.raises((ValueError, TypeError), match=named):
            world.locks(**options)
    assert sent() == 0


@in_memory
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


@in_memory
async def test_durations_are_written_in_many_ways(world: World) -> None:
    written = ((5, 5), (1.5, 1.5), ("1250ms", 1.25), ("2m", 120), (timedelta(seconds=3), 3), ("2.5s", 2.5))
    for ttl, seconds in written:
        async with world.lock(ttl=ttl) as lease:
            assert lease.ttl == seconds
    async with world.lock():
        for wait in ("0s", timedelta(0), 0.0, "20ms"):
            with pytest.raises(LockTimeout):
                await world.apart(world.lock().acquire(wait=wait))


# Wherever the locks are


@pytest.fixture
def unreachable() -> Iterator[tuple[list[str], Callable[[], bool]]]:
    """Three addresses that do not answer, and whether a client has connected there."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        urls = [f"redis://127.0.0.1:{each.getsockname()[1]}/0" for each in listeners]
        yield urls, lambda: bool(select.select(listeners, [], [], 0)[0])


ELSEWHERE = [(kind, nodes) for kind in KINDS for nodes in (1, 3) if (kind, nodes) != ("permit", 3)]


@pytest.mark.played(colour=["sync", "asyncio"])
@pytest.mark.parametrize(("kind", "nodes"), ELSEWHERE, ids=lambda given: f"{given}")
def test_what_is_refused_in_memory_is_refused_unsent_on_servers_too(
    colour: Colour, kind: str, nodes: int, unreachable: tuple[list[str], Callable[[], bool]]
) -> None:
    urls, reached = unreachable
    target = urls[:nodes] if nodes > 1 else urls[0]

    async def scene() -> None:
        async with colour.open(target) as locks:
            for said, name in NAMES.items():
                with pytest.raises((ValueError, TypeError), match="name"):
                    pytest.fail(f"{said}: {KINDS[kind](locks, name)}")
                with pytest.raises((ValueError, TypeError), match="name"):
                    pytest.fail(f"{said}: {await locks.inspect(name)}")
            for said, (options, named) in OPTIONS.items():
                with pytest.raises((ValueError, TypeError), match=named):
                    pytest.fail(f"{said}: {KINDS[kind](locks, 'fine', **options)}")
                if options.keys() <= {"ttl", "wait", "label"}:
                    with pytest.raises((ValueError, TypeError), match=named):
                        pytest.fail(f"{said}: {colour.open(target, **options)}")

    colour.run(scene())
    assert not reached()


# Clients

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
    "acks below 0": ({"acks": -1}, ValueError),
    "acks float": ({"acks": 1.0}, TypeError),
    "credentials": ({"credentials": 5}, TypeError),
    "unknown": ({"timeout": 5}, TypeError),
}


both_colours = pytest.mark.played(colour=["sync", "asyncio"])


@both_colours
@pytest.mark.parametrize(("options", "error"), SETTINGS.values(), ids=SETTINGS)
def test_bad_settings_are_refused(
    colour: Colour, options: dict[str, Any], error: type[Exception], unreachable: tuple[list[str], Callable[[], bool]]
) -> None:
    urls, reached = unreachable
    with pytest.raises(error, match=next(iter(options))):
        colour.open(urls[0], **options)
    assert not reached()


TARGETS = ("ftp://host", "localhost:6379", "redis://host:port", "redis://host/first", "", 5, b"redis://")


@both_colours
@pytest.mark.parametrize("target", TARGETS, ids=repr)
def test_a_bad_target_is_refused(colour: Colour, target: object) -> None:
    with pytest.raises((ValueError, TypeError), match="target"):
        colour.open(target)


# Looking and acting from outside


OWNER = "A" * 32
ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "no reason": ("reason", {"reason": ""}),
    "long reason": ("reason", {"reason": "x" * 501}),
    "reason long in bytes": ("reason", {"reason": "ü" * 251}),
    "reason of several lines": ("reason", {"reason": "a\nb"}),
    "reason with an escape": ("reason", {"reason": "\x1b[2J"}),
    "reason of another type": ("reason", {"reason": 7}),
    "reason with a lone surrogate": ("reason", {"reason": "a\ud800"}),
    "empty by": ("by", {"by": ""}),
    "long by": ("by", {"by": "x" * 129}),
    "by with a control character": ("by", {"by": "me\x07"}),
    "by of another type": ("by", {"by": b"me"}),
    "owner of another type": ("owner", {"owner": b"x" * 24}),
    "empty owner": ("owner", {"owner": ""}),
    "short owner": ("owner", {"owner": OWNER[:-4]}),
    "owner that is none": ("owner", {"owner": "not an owner at all!"}),
    "owner beyond ASCII": ("owner", {"owner": "ü" * 32}),
    "no name": ("name", {"name": ""}),
}


@in_memory
@pytest.mark.parametrize(("argument", "given"), ORDERS.values(), ids=ORDERS)
async def test_a_bad_order_to_force_is_refused_unsent(world: World, argument: str, given: dict[str, Any]) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match=argument):
        await world.client.force_release(**{"name": "a", "reason": "why", **given})
    assert sent() == 0


@in_memory
async def test_an_order_as_long_as_is_allowed_is_taken(world: World) -> None:
    given: dict[str, Any] = {"reason": "ü" * 250, "by": "x" * 128, "owner": OWNER}
    assert await world.client.force_release("a", **given) is None


@in_memory
@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "10", None], ids=repr)
async def test_a_bad_limit_is_refused_unsent(world: World, limit: Any) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match="limit"):
        await world.client.audit(limit)
    with pytest.raises((ValueError, TypeError), match="name"):
        await world.client.audit(name="")
    assert sent() == 0


@in_memory
@pytest.mark.parametrize("pattern", ["", b"*", 1, None, ["a"], "a\ud800"], ids=repr)
async def test_a_bad_pattern_is_refused_unsent(world: World, pattern: Any) -> None:
    sent = world.tap()
    with pytest.raises((ValueError, TypeError), match="pattern"):
        [info async for info in world.client.list(pattern)]
    assert sent() == 0
