"""The command that `holdtight run` runs: a process group of its own, with the terminal if we have it.

`Child` forks before the client opens its connections and threads: a fork of a process with threads may hang. The forked
process waits for its orders, then makes its group, takes the terminal and becomes the command. If it never gets
orders (no lock), it exits.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdtight.base.clock import boottime

__all__ = ["Child", "Guardian", "Terminal"]

NOT_FOUND, NOT_EXECUTABLE = 127, 126


class Terminal:
    """The controlling terminal, if there is one. Its foreground group gets what is typed, and Ctrl-C."""

    def __init__(self) -> None:
        try:
            self.fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self.fd = -1

    @property
    def ours(self) -> bool:
        return self.belongs_to(os.getpgrp())

    def belongs_to(self, group: int) -> bool:
        return self.fd >= 0 and _foreground(self.fd) == group

    def take_back(self, group: int) -> None:
        """Takes it from this group, or from one that has ended. Any other keeps it: the shell, once it has put us into
        the background."""
        now = _foreground(self.fd)
        if now == group or _has_ended(now):
            self.give(os.getpgrp())

    def give(self, group: int) -> None:
        if self.fd < 0:
            return
        # A process of a background group that changes the foreground group is stopped, unless it ignores SIGTTOU.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):
            os.tcsetpgrp(self.fd, group)
        signal.signal(signal.SIGTTOU, before)


def _foreground(fd: int) -> int:
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return -1


def _has_ended(group: int) -> bool:
    try:
        if group > 0:
            os.killpg(group, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


class Child:
    def __init__(self, command: Sequence[str], terminal: Terminal) -> None:
        self.command = command
        self._orders_read, self._orders = os.pipe()
        self._failure, self._failure_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            os.close(self._failure)
            self._become(terminal)
        os.close(self._orders_read)
        os.close(self._failure_write)

    def _become(self, terminal: Terminal) -> None:
        status = NOT_EXECUTABLE
        try:
            orders = b""
            while part := os.read(self._orders_read, 65536):
                orders += part
            if not orders:
                os._exit(0)
            environment, foreground = json.loads(orders)
            os.setpgid(0, 0)
            if foreground:
                terminal.give(os.getpid())
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the command would inherit that
            os.execvpe(self.command[0], list(self.command), environment)
        except OSError as error:
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            text = f"{self.command[0]}: {error.strerror}"
            os.write(self._failure_write, text.encode("utf-8", "surrogateescape"))
        except BaseException as error:
            os.write(self._failure_write, f"{self.command[0]}: {error}".encode("utf-8", "replace"))
        finally:
            os._exit(status)

    def start(self, environment: Mapping[str, str], *, foreground: bool) -> str:
        """Lets the command begin. Returns why it could not, or an empty text."""
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)  # both sides do it, so that it is done for whichever goes on first
        orders = json.dumps([dict(environment), foreground]).encode()
        while orders:
            orders = orders[os.write(self._orders, orders) :]
        os.close(self._orders)
        self._orders = -1
        text = b""
        while part := os.read(self._failure, 4096):
            text += part
        os.close(self._failure)
        return text.decode("utf-8", "replace")

    def cancel(self) -> None:
        """The command is not to run."""
        if self._orders >= 0:
            os.close(self._orders)
            os.waitpid(self.pid, 0)

    def send(self, number: int) -> bool:
        """Sends a signal to the group. Returns whether anything is left of it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # a member runs as another user
        return True

    def running(self) -> bool:
        """Whether a process of the group runs. One that has ended counts as a member until its parent has noticed, and
        the first process of a container may never do so: on Linux those are left out."""
        if not self.send(0):
            return False
        try:
            states = [_state(pid) for pid in os.listdir("/proc") if pid.isdecimal()]
        except OSError:  # this is no Linux
            return True
        return not states or any(group == self.pid and state not in "ZX" for group, state in states)


def _state(pid: str) -> tuple[int, str]:
    """The process group and the state of a process; 0 and X if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            _, _, fields = file.read().rpartition(") ")
        state, _, group, *_ = fields.split()
        return int(group), state
    except (OSError, ValueError):
        return 0, "X"


class Guardian:
    """See guardian.py."""

    def __init__(self, *, wanted: bool) -> None:
        self._fd = self.pid = -1
        self._last = b""
        if not wanted:
            return
        read, self._fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.dup2(read, 0)
                script = os.path.join(os.path.dirname(__file__), "guardian.py")
                os.execv(sys.executable, [sys.executable, "-I", "-S", script])
            finally:
                os._exit(1)
        os.close(read)
        os.set_blocking(self._fd, False)

    def tell(self, group: int, left: float, notice: float, *, told: bool) -> None:
        self._write(b"%d %.6f %.6f %d\n" % (group, boottime() + left, notice, told))

    def dismiss(self) -> None:
        if self.pid > 0:
            self._write(b"done\n")
            os.close(self._fd)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _write(self, line: bytes) -> None:
        if self._fd >= 0:
            with suppress(OSError):  # it was killed, or is stopped: `run` itself still watches the deadline
                os.write(self._fd, line)
