"""Supervises a user's shared server: `python -m holdtight.embedded.supervisor FOLDER BINARY IDLE`.

It starts the server, or takes over one whose supervisor was killed, reports that on stdout, and then watches the server
through its own connection. It ends the server after IDLE seconds without clients, once no key is left (locks and all
bookkeeping have an expiry), and exits when the server is gone.

If the supervisor is killed, the server keeps running: holders are not affected, and the next client starts a new
supervisor. It ignores termination signals for the same reason: to end both, terminate the server.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.folder import Home, home_at
from holdtight.embedded.shared import BUSY, FAILED, READY
from holdtight.embedded.wire import Refused, Wire, listening
from holdtight.errors import quotable

CLIENT_NAME = "holdtight-supervisor"
_START_WITHIN = 10.0
_LOG_LIMIT = 1 << 20
_TOUCH_EVERY = 600.0


def main(arguments: Sequence[str]) -> None:
    folder, binary, idle = arguments
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    starter = _Starter(os.dup(1))
    os.dup2(2, 1)  # from here on stdout goes to the log too
    home = home_at(Path(folder))
    with home.supervising(deadline=time.monotonic() + 3) as locked:
        if locked is None:
            return starter.hear(BUSY)
        if starter.gone():
            return  # the next client starts its own supervisor
        supervisor = _Supervisor(home, locked, float(idle))
        try:
            supervisor.begin(binary)
        except (OSError, Refused) as error:
            return starter.hear(f"{FAILED} {quotable(error)}")
        starter.hear(READY)
        supervisor.watch()


class _Starter:
    """The process that started us. It reads one line from us, unless it was killed or gave up meanwhile."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def gone(self) -> bool:
        poll = select.poll()
        poll.register(self._pipe, 0)  # errors only
        return bool(poll.poll(0))

    def hear(self, line: str) -> None:
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except BrokenPipeError:
            pass
        os.close(self._pipe)


@dataclass(frozen=True)
class _State:
    used: bool
    keys: bool


class _Supervisor:
    def __init__(self, home: Home, folder: int, idle: float) -> None:
        self._home = home
        self._folder = folder
        self._idle = idle
        self._child: subprocess.Popen[bytes] | None = None  # None: we took over a running server
        self._wire: Wire | None = None
        self._pid = 0
        self._connections = ""

    def begin(self, binary: str) -> None:
        if not listening(str(self._home.socket)):
            self._start(binary)
        for deadly in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(deadly, signal.SIG_IGN)

    def watch(self) -> None:
        pause = min(2.0, self._idle / 10)
        last_used = last_touched = time.monotonic()
        while self._connect():
            state = self._look()
            now = time.monotonic()
            if state is None and not self._connect():
                break
            if state is None or state.used:
                last_used = now
            elif now - last_used >= self._idle and not state.keys and self._end_if_unused():
                return
            if not self._home.reachable(self._folder):
                # The next client will start another server: two servers with the same locks must not coexist.
                break
            if now - last_touched > _TOUCH_EVERY:
                last_touched = now
                self._touch()
            # If the server dies, our connection ends, which wakes us early.
            select.select([self._wire] if self._wire else [], [], [], pause)
        self._end()

    def _start(self, binary: str) -> None:
        home = self._home
        home.socket.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(home.socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "dir": str(home.folder),
        }
        command = [binary, *(word for key, value in options.items() for word in (f"--{key}", value))]
        with home.log.open("ab") as log:
            if log.tell() > _LOG_LIMIT:
                log.truncate(0)
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C"}
            )
        deadline = time.monotonic() + _START_WITHIN
        while not self._answers():
            if self._child.poll() is not None:
                raise EmbeddedError(f"{binary} ended while starting")
            if time.monotonic() > deadline:
                self._child.kill()
                self._child.wait()
                raise EmbeddedError(f"{binary} did not answer within {_START_WITHIN:g} s")
            time.sleep(0.002)

    def _answers(self) -> bool:
        try:
            with Wire(str(self._home.socket)) as wire:
                return wire.ask("PING") == "PONG"
        except OSError:
            return False

    def _connect(self) -> bool:
        """Connects if possible; False only if no server listens any more."""
        if self._wire:
            return True
        try:
            self._wire = Wire(str(self._home.socket))
            self._wire.ask(f"CLIENT SETNAME {CLIENT_NAME}:{os.getpid()}")
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (OSError, Refused):
            self._disconnect()
        return True

    def _disconnect(self) -> None:
        if self._wire:
            self._wire.close()
            self._wire = None

    def _look(self) -> _State | None:
        """The server's state; None if unknown, as with a server that is stopped or has no free connections."""
        if not self._wire:
            return None
        try:
            info = self._wire.info("server clients stats keyspace")
        except (OSError, Refused):
            self._disconnect()
            return None
        self._pid = int(info["process_id"])
        before, self._connections = self._connections, info["total_connections_received"]
        return _State(
            # A client that came and went between two checks counts as well.
            used=info["connected_clients"] != "1" or self._connections != before,
            keys=any(key.startswith("db") and key[2:].isdigit() for key in info),
        )

    def _end_if_unused(self) -> bool:
        try:
            with self._home.locked(exclusive=True, deadline=0):
                state = self._look()
                if state is None or state.used or state.keys:
                    return False
                self._end()
                return True
        except EmbeddedError:  # a client is connecting
            return False

    def _end(self) -> None:
        """Ends the server, in whatever state it is, and removes its socket."""
        reachable = self._home.reachable(self._folder)
        # A clean shutdown removes the file at the socket's path, which may belong to another server by now.
        if self._wire and not (reachable and self._asked_to_end(self._wire)) and self._pid:
            os.kill(self._pid, signal.SIGKILL)  # we are still connected, so the id still belongs to the server
        if self._child:
            if not self._wire:
                self._child.kill()
            self._child.wait()
        self._disconnect()
        if reachable:
            self._home.socket.unlink(missing_ok=True)

    def _asked_to_end(self, wire: Wire) -> bool:
        try:
            wire.ask("SHUTDOWN NOSAVE")
        except ConnectionError:
            return True  # a server that shuts down closes the connection
        except (OSError, Refused):
            pass
        return False

    def _touch(self) -> None:
        """Keeps programs that delete old files from deleting ours."""
        for path in (self._home.folder, self._home.lock, self._home.log, self._home.socket):
            try:
                os.utime(path)
            except FileNotFoundError:
                pass


if __name__ == "__main__":
    main(sys.argv[1:])
