"""The lock service as a process, a bare server of the same make, and clients that ask them by HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.worker_process import HOME

__all__ = ["Process", "Wire", "bare", "served"]

PATIENCE = 30.0


class Process:
    """A server that was started, and what it costs."""

    def __init__(self, process: subprocess.Popen[str], url: str, token: str) -> None:
        self.pid = process.pid
        self.host, _, port = url.removeprefix("http://").partition(":")
        self.port = int(port)
        self.token = token

    def seconds(self) -> float:
        """Processor time so far, of all its threads, to the nanosecond."""
        found = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                found += int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue  # the thread has just ended
        return found / 1e9

    def kilobytes(self) -> int:
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(re.findall(r"^Private_(?:Dirty|Clean): +(\d+)", text, re.MULTILINE)[-1]) + int(
            re.findall(r"^Private_Clean: +(\d+)", text, re.MULTILINE)[0]
        )


class Wire:
    """One connection that is kept: requests one after the other."""

    def __init__(self, to: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._to, self._reader, self._writer = to, reader, writer

    @classmethod
    async def open(cls, to: Process) -> Wire:
        return cls(to, *await asyncio.open_connection(to.host, to.port))

    def send(self, verb: str, **body: Any) -> None:
        raw = json.dumps(body).encode()
        self._writer.write(
            f"POST /v1/{verb} HTTP/1.1\r\nhost: {self._to.host}\r\nauthorization: Bearer {self._to.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n".encode()
            + raw
        )

    async def answer(self) -> Any:
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = int(re.findall(rb"content-length: (\d+)", head)[0])
        body = json.loads(await self._reader.readexactly(size))
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(str(body))
        return body

    async def ask(self, verb: str, **body: Any) -> Any:
        self.send(verb, **body)
        return await self.answer()

    async def look(self, path: str) -> Any:
        self._writer.write(
            f"GET {path} HTTP/1.1\r\nhost: {self._to.host}\r\nauthorization: Bearer {self._to.token}\r\n\r\n".encode()
        )
        return await self.answer()

    def close(self) -> None:
        self._writer.transport.abort()


@contextmanager
def served(url: str) -> Iterator[Process]:
    """An instance, with a token that has a prefix."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens.toml"
        made = _run("token", "bench", "--role", "lock", "--prefix", "bench:", "--file", str(tokens))
        token = made.communicate()[0].strip()
        process = _run("serve", "--url", url, "--tokens", str(tokens), "--bind", "127.0.0.1:0")
        with _ending(process, Path(folder) / "log", token) as found:
            yield found


@contextmanager
def bare(url: str) -> Iterator[Process]:
    """The same server and the same checks, whose answers come without a lock server."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from bench.serving import run_bare; run_bare()"]
        process = subprocess.Popen(command, env=_environment(), cwd=HOME, stderr=subprocess.PIPE, text=True)
        with _ending(process, Path(folder) / "log", "ht_bare") as found:
            yield found


def _environment() -> dict[str, str]:
    paths = (os.environ.get("PYTHONPATH", ""), str(HOME), str(HOME / "src"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _run(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdtight", *words]
    out = subprocess.PIPE if words[0] == "token" else subprocess.DEVNULL
    err = None if words[0] == "token" else subprocess.PIPE
    return subprocess.Popen(command, env=_environment(), stdout=out, stderr=err, text=True, start_new_session=True)


@contextmanager
def _ending(process: subprocess.Popen[str], log: Path, token: str) -> Iterator[Process]:
    import threading

    assert process.stderr is not None
    found: list[str] = []
    up = threading.Event()

    def drain() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if not found and (said := re.search(r" at (http://[0-9.:]+)", line)):
                found.append(said[1])
                up.set()
        up.set()

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    try:
        up.wait(PATIENCE)
        if not found:
            raise RuntimeError("the lock service did not start")
        yield Process(process, found[0], token)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(5)


def run_bare() -> None:
    import socket

    import msgspec
    import uvicorn
    import uvloop

    from holdtight.server import bodies
    from holdtight.server.protocol import Protocol
    from holdtight.server.tokens import hash_of

    decoders: dict[str, Any] = {
        "acquire": msgspec.json.Decoder(bodies.Acquire),
        "release": msgspec.json.Decoder(bodies.Release),
    }
    known = {hash_of("ht_bare")}
    granted = {"state": "held", "lease": "htl_" + "x" * 90, "name": "bench:0", "kind": "exclusive", "n": 1, "fence": 1}
    granted |= {"ttl": 30.0, "valid": 29.698, "waited": 0.0, "previous_expired": False}
    encode = msgspec.json.Encoder().encode

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        word = scope["path"][4:]
        assert hash_of(headers[b"authorization"].decode()[7:]) in known
        message = await receive()
        if word == "open":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        body = decoders[word].decode(message["body"])
        answer = encode(granted if isinstance(body, bodies.Acquire) else {"released": True})
        found = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        found += [(b"cache-control", b"no-store"), (b"x-request-id", os.urandom(8).hex().encode())]
        await send({"type": "http.response.start", "status": 200, "headers": found})
        await send({"type": "http.response.body", "body": answer})

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    sys.stderr.write(f"bare at http://127.0.0.1:{listening.getsockname()[1]}\n")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listening]))


async def pairs(to: Process, connections: int, number: int) -> float:
    """Acquires and releases so many times on each connection; the server's processor time for a pair, in µs."""
    wires = [await Wire.open(to) for _ in range(connections)]

    async def go(wire: Wire, at: int, times: int) -> None:
        for turn in range(times):
            held = await wire.ask("acquire", name=f"bench:{at}:{turn}", ttl=30, request=f"{at}-{turn}")
            await wire.ask("release", lease=held["lease"])

    await asyncio.gather(*[go(wire, at, 5) for at, wire in enumerate(wires)])
    before = to.seconds()
    await asyncio.gather(*[go(wire, at, number) for at, wire in enumerate(wires)])
    used = to.seconds() - before
    for wire in wires:
        wire.close()
    return 1e6 * used / (connections * number)


async def library_pairs(url: str, tasks: int, number: int) -> float:
    """The same with the library; microseconds of this process."""
    from holdtight import AsyncLocks

    async with AsyncLocks(url) as locks:

        async def go(at: int, times: int) -> None:
            for turn in range(times):
                async with locks.lock(f"bench:{at}:{turn}", ttl=30):
                    pass

        await asyncio.gather(*[go(at, 5) for at in range(tasks)])
        before = time.process_time()
        await asyncio.gather(*[go(at, number) for at in range(tasks)])
        return 1e6 * (time.process_time() - before) / (tasks * number)
