"""A private server for tests: it starts in the constructor and ends with `close()` or with its owner's death.

The server is not our child but the child of a `guardian`, which holds the other end of a pipe. Only the guardian acts
on the server's process, on our orders.
"""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self
from urllib.parse import quote

from holdtight.embedded import guardian
from holdtight.embedded.binary import find_binary, interpreter
from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.folder import MAX_SOCKET_PATH
from holdtight.embedded.wire import Address, Refused, Wire

_START_WITHIN = 20.0
_PORT_ATTEMPTS = 20
# Below every system's range for outgoing connections: while a server is down, a client that keeps trying an ephemeral
# port of its own machine can connect to itself, and so occupy the port.
_PORTS = range(15_000, 32_000)
_HOST = "127.0.0.1"


class Server:
    """A new, empty server on loopback (`tcp=True`) or on a unix socket, without persistence.

    `binary` is the name or path of a program to use instead of that of the extra `embedded`; `args` are added to its
    command line and override ours; `env` is added to its environment. It ends with its block, with `close()`, or with
    this process. `url` is a target for `Locks`.

    Raises `embedded.EmbeddedError` if the program does not start, ModuleNotFoundError without the extra `embedded`,
    FileNotFoundError if there is no such `binary`.

    Example:
        >>> from holdtight import embedded
        >>> with embedded.Server() as server, Locks(server.url) as remote:
        ...     with remote.lock("order:42") as lease:
        ...         print(lease.name)
        order:42
    """

    def __init__(
        self,
        binary: str | os.PathLike[str] | None = None,
        tcp: bool = True,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._program = _program(binary)
        self._args = tuple(args)
        self._env = {**os.environ, "LC_ALL": "C", **(env or {})}
        self._tcp = tcp
        self.port = 0
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            self.port = _free_port() if tcp else 0
            self._open()
            try:
                self._start(time.monotonic() + _START_WITHIN)
            except BaseException as error:
                taken = isinstance(error, EmbeddedError) and "in use" in self.log
                self.close()
                if not (taken and attempts_left):
                    raise
            else:
                return

    @property
    def url(self) -> str:
        return f"redis://{_HOST}:{self.port}/0" if self._tcp else f"unix://{quote(str(self._socket))}"

    @property
    def pid(self) -> int:
        """The server's process id, 0 while it is down."""
        return self._owner.order(guardian.ASK)

    @property
    def log(self) -> str:
        """The server's log; empty after `close()`."""
        try:
            return self._log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def kill(self) -> None:
        """Ends the server with SIGKILL; `restart` uses the same address."""
        self._owner.order(guardian.KILL)

    def restart(self) -> None:
        """Kills the server if it runs, and starts it again, empty, at the same address."""
        self.kill()
        deadline = time.monotonic() + _START_WITHIN
        while True:
            try:
                return self._start(deadline)
            except EmbeddedError:
                # Another process may use our port for a moment. The address must stay the same, so try again.
                if "in use" not in self._news() or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def pause(self) -> None:
        """Sends SIGSTOP: connections stay open, but nothing is answered. The server has stopped when this returns."""
        self._owner.order(guardian.PAUSE)

    def resume(self) -> None:
        self._owner.order(guardian.RESUME)

    def close(self) -> None:
        """Ends the server and removes its files. Has no effect if called again, or in a forked child."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    @property
    def _address(self) -> Address:
        return (_HOST, self.port) if self._tcp else str(self._socket)

    def _open(self) -> None:
        folder = _temporary_folder()
        self._socket = folder / "valkey.sock"
        self._log = folder / "log"
        self._log_seen = 0
        options = {
            "port": str(self.port),
            "bind": _HOST,
            "save": "",
            "appendonly": "no",
            "dir": str(folder),
        }
        if not self._tcp:
            options["unixsocket"] = str(self._socket)
        command = [self._program, *(word for key, value in options.items() for word in (f"--{key}", value))]
        self._owner = _Owner(folder, self._log, [*command, *self._args], self._env)
        self._finalizer = weakref.finalize(self, self._owner.close)

    def _start(self, deadline: float) -> None:
        self._log_seen = len(self.log)
        pid = self._owner.order(guardian.START)
        while not self._answers(pid):
            if self._owner.order(guardian.ASK) != pid:
                raise EmbeddedError(
                    f"{self._program} ended while starting. Look at the options that it was given, and at what its log "
                    f"says:\n{self._news()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise EmbeddedError(
                    f"{self._program} did not answer within {_START_WITHIN:g} s. Try again when the machine is less "
                    f"busy, and look at what its log says:\n{self._news()}"
                )
            time.sleep(0.002)

    def _answers(self, pid: int) -> bool:
        """True if *this* server answers: another process may have taken the port a moment before."""
        try:
            with Wire(self._address) as wire:
                wire.ask("PING")
                return wire.info("server").get("process_id") == str(pid)
        except Refused as refusal:
            protected = str(refusal).startswith(("NOAUTH", "NOPERM", "DENIED"))
            return protected and "accept connections" in self._news()
        except OSError:
            return False

    def _news(self) -> str:
        return self.log[self._log_seen :]


class _Owner:
    """Our end of the guardian's pipes. A forked child closes its copy: the server belongs to the parent."""

    _all: ClassVar["weakref.WeakSet[_Owner]"] = weakref.WeakSet()

    def __init__(self, folder: Path, log: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._one_at_a_time = threading.Lock()
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [interpreter(), "-I", "-S", guardian.__file__, str(folder), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                bufsize=0,
                cwd=folder,
                env=env,
                start_new_session=True,  # Ctrl-C must reach only the test run, which then closes its servers
            )
        self._open = True
        _Owner._all.add(self)

    def order(self, order: bytes) -> int:
        with self._one_at_a_time:
            if not self._open:
                raise ValueError("this embedded server is closed, or belongs to the parent of this process")
            orders, answers = self._process.stdin, self._process.stdout
            assert orders is not None
            assert answers is not None
            try:
                orders.write(order)
                answer = answers.readline()
            except BrokenPipeError:
                answer = b""
        if not answer:
            raise EmbeddedError(
                "the process that looks after the embedded server is gone, and the server may be gone too. Make "
                "another embedded.Server()."
            )
        return int(answer)

    def close(self) -> None:
        with self._one_at_a_time:
            if not self._open:
                return
            self._let_go()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _let_go(self) -> None:
        self._open = False
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    @classmethod
    def after_fork_in_child(cls) -> None:
        for owner in list(cls._all):
            owner._one_at_a_time = threading.Lock()
            if owner._open:
                # A copy of the pipe in a surviving child would keep the server of a dead parent alive.
                owner._let_go()
                owner._process.returncode = 0


os.register_at_fork(after_in_child=_Owner.after_fork_in_child)


def _program(binary: str | os.PathLike[str] | None) -> str:
    if binary is None:
        return str(find_binary())
    found = shutil.which(binary)
    if found is None:
        raise FileNotFoundError(f"there is no executable server program {os.fspath(binary)!r}")
    return found


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="holdtight-"))
    if len(os.fsencode(folder / "valkey.sock")) > MAX_SOCKET_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="holdtight-", dir="/tmp"))
    return folder


def _free_port() -> int:
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        return port
