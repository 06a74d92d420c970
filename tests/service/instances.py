"""Instances of the service as processes, as operators start them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from holdtight.server.tokens import add_token

__all__ = ["Instance", "instance", "token_file"]

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
        end = time.monotonic() + PATIENCE
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
