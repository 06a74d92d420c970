"""A proxy between clients and the service that loses answers: what was asked is done, and nobody is told."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

__all__ = ["Swallower", "first_of_each_path", "now_and_then", "swallower"]

Choice = Callable[[str], bool]
"""Whether the answer to a request with this path is lost."""


def first_of_each_path() -> Choice:
    seen: set[str] = set()

    def choose(path: str) -> bool:
        fresh = path not in seen
        seen.add(path)
        return fresh

    return choose


def now_and_then(share: float, seed: int = 0) -> Choice:
    chance = random.Random(seed)
    return lambda path: chance.random() < share


class Swallower:
    """The connection ends with the answer that is lost. One thread moves the bytes."""

    def __init__(self, target: str, choose: Choice) -> None:
        url = httpx.URL(target)
        self._target = (url.host, url.port or 80)
        self.choose = choose
        self.lost: list[str] = []
        """The paths whose answers were lost."""
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._started, self._over = threading.Event(), asyncio.Event()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0, backlog=4096)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._over.wait()
        server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = ""
        try:
            answers, requests = await asyncio.open_connection(*self._target)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return

        async def forth() -> None:
            nonlocal path
            while data := await reader.read(65536):
                if data.startswith((b"POST ", b"GET ")):
                    path = data.split(b" ", 2)[1].decode()
                requests.write(data)
                await requests.drain()

        async def back() -> None:
            while data := await answers.read(65536):
                if data.startswith(b"HTTP/1.1 ") and self.choose(path):
                    self.lost.append(path)
                    return
                writer.write(data)
                await writer.drain()

        both = [asyncio.ensure_future(forth()), asyncio.ensure_future(back())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            writer.transport.abort()
            requests.transport.abort()


@contextmanager
def swallower(target: str, choose: Choice) -> Iterator[Swallower]:
    made = Swallower(target, choose)
    made._thread.start()
    assert made._started.wait(10)
    try:
        yield made
    finally:
        made._loop.call_soon_threadsafe(made._over.set)
        made._thread.join()
        made._loop.close()
