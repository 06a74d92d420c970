"""Clients of both colours behind one blocking interface, so that one test serves both; helpers that inspect a server.

A client may be used from any thread: that of `AsyncLocks` runs a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import pytest

from holdtight import AsyncLocks, Locks, NotOwner
from holdtight.grants.lease import BaseLease
from holdtight.stores.redis import script
from holdtight.stores.redis.script import Script
from tests.support.processes import PATIENCE
from tests.support.servers import RunningServer

__all__ = [
    "COLOURS",
    "Client",
    "Colour",
    "OpenClient",
    "asks",
    "load_scripts",
    "lock_keys",
    "open_client",
    "release_lost",
    "start",
    "tidy",
    "waiting",
]

T = TypeVar("T")
Colour: TypeAlias = Literal["sync", "asyncio"]
COLOURS: tuple[Colour, ...] = ("sync", "asyncio")
LONGEST_BOOKKEEPING_MS = 10_000


class Client(Protocol):
    locks: Any

    def acquire(self, name: str, **options: Any) -> BaseLease: ...
    def try_acquire(self, name: str, **options: Any) -> BaseLease | None: ...
    def release(self, lease: BaseLease) -> None: ...
    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a method of either colour and returns its result."""
        ...

    def close(self) -> None: ...


class Blocking:
    def __init__(self, url: str | list[str], **settings: Any) -> None:
        self.locks: Any = Locks(url, **settings)

    def acquire(self, name: str, **options: Any) -> BaseLease:
        lease: BaseLease = self.locks.lock(name, **options).acquire()
        return lease

    def try_acquire(self, name: str, **options: Any) -> BaseLease | None:
        lease: BaseLease | None = self.locks.lock(name, **options).try_acquire()
        return lease

    def release(self, lease: Any) -> None:
        lease.release()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def close(self) -> None:
        self.locks.close()


class OnALoop:
    def __init__(self, url: str | list[str], **settings: Any) -> None:
        self.locks: Any = AsyncLocks(url, **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="a test's loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(3 * PATIENCE)

    def acquire(self, name: str, **options: Any) -> BaseLease:
        lease: BaseLease = self.run(self.locks.lock(name, **options).acquire())
        return lease

    def try_acquire(self, name: str, **options: Any) -> BaseLease | None:
        lease: BaseLease | None = self.run(self.locks.lock(name, **options).try_acquire())
        return lease

    def release(self, lease: Any) -> None:
        self.run(lease.release())

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.run(function(*args))

    def close(self) -> None:
        self.run(self.locks.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


OpenClient: TypeAlias = Callable[..., Client]
"""The fixture's value: open_client(url, **settings) opens a client of the colour under test."""


def open_client(colour: Colour, url: str | list[str], **settings: Any) -> Client:
    return Blocking(url, **settings) if colour == "sync" else OnALoop(url, **settings)


def start(work: Callable[[], T]) -> Future[T]:
    """Runs it in a daemon thread."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="a test's thread", daemon=True).start()
    return done


def release_lost(client: Client, lease: BaseLease) -> None:
    """Releases a lost lease: the first call raises, the second does nothing."""
    with pytest.raises(NotOwner):
        client.release(lease)
    client.release(lease)


# The server, from outside


def load_scripts(server: RunningServer) -> None:
    """Loads the scripts, so that every request is one EVALSHA without a NOSCRIPT before it."""
    with server.connect() as client:
        for each in vars(script).values():
            if isinstance(each, Script):
                client.call("SCRIPT", "LOAD", each.body)


def asks(asked: Script) -> Callable[[bytes], bool]:
    """Matches requests of this script, in either form."""
    return lambda raw: asked.sha.encode() in raw or asked.body in raw


def waiting(server: RunningServer, name: str) -> int:
    """The number of waiters."""
    return int(server.command("ZCARD", f"ht:{{{name}}}:q"))


def lock_keys(server: RunningServer) -> dict[str, int]:
    """Every key but the clients' records, with the milliseconds it has left."""
    with server.connect() as client:
        left = {key: int(client.call("PTTL", key)) for key in server.keys("*") if ":client:" not in key}
    return {key: ms for key, ms in left.items() if ms != -2}


def tidy(server: RunningServer) -> None:
    """Checks that no holder and no waiter is left, only bookkeeping that expires within ten seconds."""
    for key, ms in lock_keys(server).items():
        assert 0 <= ms <= LONGEST_BOOKKEEPING_MS, f"{key} stays for {ms} ms"
        kind = server.command("TYPE", key)
        assert kind != "zset", f"{key}: a waiter is left in line: {server.command('ZRANGE', key, 0, -1)}"
        if kind == "hash":
            fields = [field.encode("utf-8", "surrogateescape") for field in server.command("HKEYS", key)]
            markers = [field for field in fields if field[:1] == b"m" and len(field) == 25]
            left = set(fields) - {b"e", b"f", *markers}
            assert not left, f"{key} has waiters or holders: {left}"
