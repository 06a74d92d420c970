"""Child processes that a test starts, talks to by lines, stops, kills, and never leaves behind.

A child ends with this process, whatever ends this process: on Linux the kernel kills it (PR_SET_PDEATHSIG), elsewhere
an exit handler does. For Linux the "parent" is the *thread* that forked, so one thread forks all children and lives as
long as the process.

    with spawn("say('ready'); say(hear().upper())") as child:
        child.expect("ready")
        child.send("hello")
        child.expect("HELLO")

The code has `say(text)`, `hear()` (a line, or None at the end) and `args`, the strings that were passed.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Any, Self, TypeAlias

__all__ = ["HEAR_SIGNALS", "Child", "StartChild", "at_end", "popen", "spawn", "stop_process", "wait_for"]

PATIENCE = 30.0
"""Seconds after which a test that waits for something has failed; no good run waits so long."""

# Runs before the program proper, and becomes it: asks the kernel for a signal at the parent's end.
_BIRTH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
"""
_BECOME = _BIRTH + "os.execv(sys.argv[2], sys.argv[2:])"
# The same with setpriv of util-linux, if it is installed: that takes a fifth of the time of Python, and tests start
# many servers.
_SETPRIV = shutil.which("setpriv")
_BECOME_BY_SHELL = '[ "$PPID" = "$0" ] && exec "$@"'
HEAR_SIGNALS = """
import signal
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(each) is signal.SIG_IGN:
        signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
"""
"""A signal that nohup or a shell's & has ignored stays ignored in all children: tests send signals that must arrive."""
_RUN = (
    _BIRTH
    + HEAR_SIGNALS
    + """
import json
sys.path[:] = json.loads(sys.argv[2])
code, args = sys.argv[3], sys.argv[4:]
def say(*words):
    print(*words, flush=True)
def hear():
    line = sys.stdin.readline()
    return line.rstrip("\\n") if line else None
exec(compile(code, "<child>", "exec"), {"__name__": "__main__", "say": say, "hear": hear, "args": args})
"""
)


def wait_for(condition: Callable[[], Any], *, within: float = PATIENCE, what: str = "") -> Any:
    """Polls until the condition is true, and returns its value. For conditions that send no notice."""
    end, pause = time.monotonic() + within, 0.0005
    while not (answer := condition()):
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within} s: {what or condition}")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return answer


def popen(
    program: Sequence[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: str | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program (by its full path) in a process group of its own; it ends with this process."""
    if _SETPRIV is not None:
        birth = [_SETPRIV, "--pdeathsig", "KILL", "sh", "-c", _BECOME_BY_SHELL]
    else:
        birth = [sys.executable, "-I", "-S", "-c", _BECOME]
    command = [*birth, str(os.getpid()), *program]
    return _fork(lambda: subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, process_group=0))


def spawn(code: str | Callable[..., object], *args: str, env: Mapping[str, str] | None = None) -> Child:
    """A Python child that runs this code, or this function of a module that can be imported, with `args`."""
    if callable(code):
        module, name = code.__module__, code.__qualname__
        if module == "__main__" or "<" in name:
            raise ValueError(f"{module}.{name} cannot be imported by a child; use a function of a module")
        code = f"from {module} import {name.partition('.')[0]}; {name}(*args)"
    # -u: what the child writes is not held back; -P: no folder is put in front of the path that is passed.
    command = [sys.executable, "-u", "-P", "-c", _RUN, str(os.getpid()), json.dumps(sys.path), code, *args]
    return Child(command, env)


class Child:
    """A running child. Leaving the `with` block, or the interpreter, kills it and its whole group."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the child
        self._process = _fork(
            lambda: subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **(env or {})},
                process_group=0,
            )
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._text = b""
        self._ended = False
        _living.append(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        """What the child wrote to stderr so far."""
        if self._errors.closed:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 8000))
        return self._errors.read().decode(errors="replace")

    def send(self, line: str) -> None:
        self._stdin.write(line.encode() + b"\n")
        self._stdin.flush()

    def end_input(self) -> None:
        self._stdin.close()

    def wait_line(self, within: float = PATIENCE) -> str:
        """The next line that the child says."""
        line = self.next_line(within)
        if line is None:
            raise AssertionError(f"the child said nothing more, exit code {self.wait(within)}:\n{self.errors}")
        return line

    def next_line(self, within: float = PATIENCE) -> str | None:
        """The same, but None if the child has closed its output."""
        deadline = time.monotonic() + within
        while b"\n" not in self._text and not self._ended:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"the child said nothing for {within} s:\n{self.errors}")
            data = os.read(self._stdout.fileno(), 65536)
            self._ended = not data
            self._text += data
        line, newline, self._text = self._text.partition(b"\n")
        return line.decode() if line or newline else None

    def expect(self, line: str, within: float = PATIENCE) -> None:
        heard = self.wait_line(within)
        assert heard == line, f"expected {line!r}, the child said {heard!r}:\n{self.errors}"

    def lines(self, within: float = PATIENCE) -> list[str]:
        """All that the child still says, until it has closed its output."""
        said: list[str] = []
        deadline = time.monotonic() + within
        while (line := self.next_line(max(0.0, deadline - time.monotonic()))) is not None:
            said.append(line)
        return said

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Sends SIGKILL to the child alone, and waits for its end."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def pause(self) -> None:
        """SIGSTOP; returns when the child stands still."""
        stop_process(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, within: float = PATIENCE) -> int:
        """The exit code, negative for a signal; the end must come by itself."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the child still runs after {within} s:\n{self.errors}") from None

    def close(self) -> None:
        if self in _living:
            _living.remove(self)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


StartChild: TypeAlias = Callable[..., Child]
"""The type of the fixture start_child: as `spawn`, but the child ends with the test."""


def stop_process(pid: int) -> None:
    """SIGSTOP to a child of this process; returns when it has stopped. AssertionError if it has ended."""
    os.kill(pid, signal.SIGSTOP)
    # WNOWAIT: the exit code stays for a later wait.
    state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state is not None
    assert state.si_code == os.CLD_STOPPED, f"process {pid} has ended"


# The thread that forks


_orders: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]
_orders = queue.SimpleQueue()
_forker: threading.Thread | None = None
_forker_lock = threading.Lock()
_living: list[Child] = []


def _fork(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    global _forker
    with _forker_lock:
        if _forker is None or not _forker.is_alive():
            _forker = threading.Thread(target=_fork_orders, name="forker", daemon=True)
            _forker.start()
    done: Future[subprocess.Popen[bytes]] = Future()
    _orders.put((start, done))
    return done.result()


def _fork_orders() -> None:
    while True:
        start, done = _orders.get()
        try:
            done.set_result(start())
        except BaseException as error:
            done.set_exception(error)


def at_end(tidy: Callable[[], None]) -> None:
    """Like atexit.register, but not in a forked copy of this process, whose children are not its own."""
    here = os.getpid()

    def run() -> None:
        if os.getpid() == here:
            tidy()

    atexit.register(run)


def _close_all() -> None:
    for child in _living.copy():
        child.close()


at_end(_close_all)
