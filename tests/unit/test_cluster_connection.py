"""How an asyncio connection to a server of a cluster learns whether it listens, whatever the server refuses: each task
gets the reply to its own request."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from holdtight.aio import cluster_connection
from holdtight.aio.cluster_connection import ClusterConnection
from holdtight.base.plan import LinkDown
from holdtight.keeper import keeper
from holdtight.stores.redis.cluster_link import ClusterLink

LISTENS = b">3\r\n$10\r\nssubscribe\r\n$7\r\nchannel\r\n:1\r\n"
IDLE_ENDS = b">3\r\n$12\r\nsunsubscribe\r\n$4\r\nidle\r\n:0\r\n"
PONG = b"+PONG\r\n"
NEXT = b"$4\r\nnext\r\n"


def refused(what: str) -> bytes:
    return f"-NOPERM {what}\r\n".encode()


UNSUBSCRIBE, SUBSCRIBE, PING = refused("sunsubscribe"), refused("ssubscribe"), refused("ping")
MISCONF = b"-MISCONF Errors writing to the disk\r\n"


class Scene:
    """A connection whose server is the test."""

    def __init__(self) -> None:
        ours, self.server = socket.socketpair()
        self.failures = 0
        self.connection: Any = ClusterConnection(
            ClusterLink(ours), asyncio.get_running_loop(), keeper.runtime, self._broken
        )

    def _broken(self) -> None:
        self.failures += 1

    async def _ask(self) -> Any:
        return await self.connection.ask(b"GET", 5)

    async def play(self, replies: list[bytes], *, at_once: bool, listening: int = 1) -> list[Any]:
        """What the tasks get that listen, and then one that asks for something else."""
        tasks = [asyncio.ensure_future(self.connection.listen_to(b"channel", 5)) for _ in range(listening)]
        tasks.append(asyncio.ensure_future(self._ask()))
        while len(self.connection._pending) < len(tasks):
            await asyncio.sleep(0)
        for piece in [b"".join(replies)] if at_once else replies:
            if self.connection.alive:
                self.server.sendall(piece)
                self.connection._readable()
        try:
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.connection.close()
            self.server.close()


def played(*replies: bytes, at_once: bool, room: bool = True, listening: int = 1) -> tuple[list[Any], Scene]:
    async def main() -> tuple[list[Any], Scene]:
        scene = Scene()
        if not room:
            scene.connection.channels[b"idle"] = None
        return await scene.play([*replies, NEXT], at_once=at_once, listening=listening), scene

    return asyncio.run(main())


@pytest.fixture(params=[True, False], ids=["at once", "one by one"])
def at_once(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.mark.parametrize("ping", [PONG, PING, MISCONF])
@pytest.mark.parametrize(("answer", "result"), [(LISTENS, None), (SUBSCRIBE, "NOPERM ssubscribe")])
def test_a_ping_that_is_refused_is_answered_too(answer: bytes, result: str | None, ping: bytes, at_once: bool) -> None:
    found, scene = played(answer, ping, at_once=at_once)
    assert found == [result, b"next"]
    assert not scene.failures


@pytest.mark.parametrize("ping", [PONG, PING])
@pytest.mark.parametrize("idle", [IDLE_ENDS, UNSUBSCRIBE])
@pytest.mark.parametrize(("answer", "result"), [(LISTENS, None), (SUBSCRIBE, "NOPERM ssubscribe")])
def test_so_is_the_request_that_makes_room(
    monkeypatch: pytest.MonkeyPatch, idle: bytes, answer: bytes, result: str | None, ping: bytes, at_once: bool
) -> None:
    monkeypatch.setattr(cluster_connection, "MOST_CHANNELS", 1)
    found, scene = played(idle, answer, ping, at_once=at_once, room=False)
    if (idle, answer, ping) == (IDLE_ENDS, SUBSCRIBE, PING):
        assert all(isinstance(each, LinkDown) for each in found), "it may as well be one reply short"
        assert scene.failures
    else:
        assert found == [result, b"next"]
        assert not scene.failures


@pytest.mark.parametrize("ping", [PONG, PING])
def test_the_slot_of_the_idle_channel_may_leave_just_then(
    monkeypatch: pytest.MonkeyPatch, ping: bytes, at_once: bool
) -> None:
    """The server tells of it, and then refuses to end what has ended."""
    monkeypatch.setattr(cluster_connection, "MOST_CHANNELS", 1)
    found, _ = played(IDLE_ENDS, b"-MOVED 1 other:1\r\n", LISTENS, ping, at_once=at_once, room=False)
    assert found == [None, b"next"]


def test_a_second_task_may_be_refused_where_the_first_was_not(at_once: bool) -> None:
    found, scene = played(LISTENS, PONG, SUBSCRIBE, PONG, at_once=at_once, listening=2)
    assert found == [None, "NOPERM ssubscribe", b"next"]
    assert not scene.failures


def test_a_server_that_neither_confirms_nor_refuses_is_left(at_once: bool) -> None:
    (listening, _), scene = played(PONG, at_once=at_once)
    assert isinstance(listening, LinkDown)
    assert scene.failures
