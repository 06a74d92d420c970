"""Instances of the service as processes, as operators start them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from holdtight import Locks
from holdtight.server.tokens import add_token
from tests.support.servers import RunningServer

__all__ = ["Instance", "connect", "in_background", "instance", "request", "token_file", "waiting"]

PATIENCE = 30.0


def token_file(folder: Path, *roles: str) -> tuple[Path, list[str]]:
    path = folder / "tokens.toml"
    return path, [add_token(path, role, role, ()) for role in roles]


class Instance:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        self.url = ""
        self.client = httpx.Client(verify=False, trust_env=False, timeout=PATIENCE)

    def log(self) -> str:
        return self._log.read_text("utf-8")

    def wait_until_up(self) -> None:
        end = time.monotonic() + 4 * PATIENCE  # on a busy machine a program takes long to start
        while not (found := re.search(r" at (https?://[^ \"]+)", self.log())):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)
        self.url = found[1]

    def signal(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def post(self, verb: str, token: str, /, *, timeout: float = PATIENCE, **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        return self.client.post(f"{self.url}/v1/{verb}", json=body, headers=headers, timeout=timeout)

    def get(self, path: str, token: str = "", **params: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return self.client.get(f"{self.url}{path}", headers=headers, params=params)


@contextmanager
def instance(url: str, folder: Path, *options: str, wait: bool = True) -> Iterator[Instance]:
    """On a free port of 127.0.0.1, unless the options bind elsewhere. Ends with the block."""
    log = folder / f"instance-{os.urandom(4).hex()}.log"
    command = [sys.executable, "-c", "from holdtight.cli import main; main()", "serve", "--url", url]
    if "--bind" not in options:
        command += ["--bind", "127.0.0.1:0"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, *options], stdout=out, stderr=out, text=True)
    made = Instance(process, log)
    try:
        if wait:
            made.wait_until_up()
        yield made
    finally:
        made.client.close()
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def waiting(server: RunningServer, name: str) -> int:
    with Locks(server.url) as locks:
        return locks.inspect(name).waiting


def in_background(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except httpx.HTTPError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def connect(one: Instance) -> socket.socket:
    url = httpx.URL(one.url)
    return socket.create_connection((url.host, url.port or 80), timeout=30)


def request(one: Instance, verb: str, token: str, **body: Any) -> bytes:
    raw = json.dumps(body).encode()
    return (
        b"POST /v1/%b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        % (verb.encode(), token.encode(), len(raw), raw)
    )
