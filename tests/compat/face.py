"""redis-py's locks and ours, blocking and asyncio, behind one blocking interface: one test serves all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock

from holdtight.compat.redis_py import AsyncLock, Lock
from tests.support.processes import PATIENCE

__all__ = ["COLOURS", "MAKERS", "Colour", "Face", "Maker", "OpenFace", "open_face", "takes"]

T = TypeVar("T")
Colour: TypeAlias = Literal["sync", "asyncio"]
Maker: TypeAlias = Literal["redis-py", "ours"]
COLOURS: tuple[Colour, ...] = ("sync", "asyncio")
MAKERS: tuple[Maker, ...] = ("redis-py", "ours")

CLASSES: dict[tuple[Maker, Colour], Any] = {
    ("redis-py", "sync"): redis.lock.Lock,
    ("redis-py", "asyncio"): redis.asyncio.lock.Lock,
    ("ours", "sync"): Lock,
    ("ours", "asyncio"): AsyncLock,
}


class Face(Protocol):
    client: Any

    def lock(self, name: Any, **options: Any) -> Any:
        """A lock whose methods block, whatever its colour."""
        ...

    def call(self, work: Callable[[], Any]) -> Any:
        """Calls it in the thread of this colour, and awaits the result if needed."""
        ...

    def close(self) -> None: ...


class _Blocking:
    def __init__(self, maker: Maker, url: str, settings: dict[str, Any]) -> None:
        self.client: Any = redis.Redis(**{**_place(url), **settings})
        self._class = CLASSES[maker, "sync"]

    def lock(self, name: Any, **options: Any) -> Any:
        return self._class(self.client, name, **options)

    def call(self, work: Callable[[], Any]) -> Any:
        return work()

    def close(self) -> None:
        self.client.close()


class _OnALoop:
    def __init__(self, maker: Maker, url: str, settings: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="a test's loop", daemon=True)
        self._thread.start()
        self.client: Any = redis.asyncio.Redis(**{**_place(url), **settings})
        self._class = CLASSES[maker, "asyncio"]

    def lock(self, name: Any, **options: Any) -> Any:
        # Made where it is used: redis-py keeps what it takes by thread.
        return _Bridge(self.call(lambda: self._class(self.client, name, **options)), self.call)

    def call(self, work: Callable[[], Any]) -> Any:
        async def do() -> Any:
            made = work()
            return await made if asyncio.iscoroutine(made) else made

        return self._run(do())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(6 * PATIENCE)

    def close(self) -> None:
        self._run(self.client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class _Bridge:
    """A lock of a loop, to be used from anywhere."""

    def __init__(self, lock: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
        vars(self).update(real=lock, call=call)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real, name)
        if not callable(value):
            return value
        return lambda *args, **options: self.call(lambda: value(*args, **options))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)

    def __enter__(self) -> Any:
        self.call(self.real.__aenter__)
        return self

    def __exit__(self, *error: Any) -> None:
        self.call(lambda: self.real.__aexit__(*error))


def _place(url: str) -> dict[str, Any]:
    """Not by `from_url`, whose clients do not retry."""
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port, "password": parts.password}


OpenFace: TypeAlias = Callable[..., Face]
"""The fixture's value: open_face(url, maker="ours", **settings of the client)."""


def open_face(maker: Maker, colour: Colour, url: str, **settings: Any) -> Face:
    return _Blocking(maker, url, settings) if colour == "sync" else _OnALoop(maker, url, settings)


def takes(raw: bytes) -> bool:
    """Matches the requests that take a lock by `SET NX`, of either maker."""
    return b"SET\r\n" in raw and b"NX\r\n" in raw
