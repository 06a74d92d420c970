"""What `holdtight run` does from its place in line to the command's end: a signal ends the wait or goes to the command;
the lease is watched, and the command ended before another holder can have the lock.

The main thread waits for a pipe. Signal handlers, the thread that asks for the lock, and the lease's `on_lost` write to
it. No handler raises: an exception between the grant and the next statement would leave a lock that nobody gives back.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from holdtight import LeaseLost
from holdtight.base.clock import boottime
from holdtight.cli.child import Child, Guardian, Terminal
from holdtight.keeper.keeper import keeper

__all__ = ["Ended", "Running", "Signals", "end_by"]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end `run` while it waits for the lock."""
PASSED_ON = (*ENDING, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Those that ask the command to end."""
WANTING = (signal.SIGTTIN, signal.SIGTTOU)
"""Those that stop a command which uses the terminal without having it."""
LOOKS = 12
"""How often in a ttl the loop looks how much of the lease is left."""
MOMENT = 0.1
"""Seconds that processes of the group have to end with the command before they count as left behind."""
MOST_UNDOING = 2.0
"""Seconds that undoing may take after a signal. What is not undone then ends by itself."""
KILL_EARLY = 0.05
"""Seconds before the deadline at which `--on-lost kill` kills: a process needs a moment to die."""


class Ended(Exception):
    """A signal has ended `run` before the command was started. `lease` came all the same, and is to be given back."""

    def __init__(self, number: int, lease: Any = None) -> None:
        super().__init__(number)
        self.number = number
        self.lease = lease


def end_by(number: int) -> None:
    """Ends this process by that signal, so that its parent sees the usual status. The client is closed: what the keeper
    still has to undo, such as a place in line, comes first."""
    _finish_undoing()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _finish_undoing() -> None:
    if not keeper().running:
        return
    until, begun = boottime() + MOST_UNDOING, threading.Event()
    keeper().run_soon(begun.set)  # after what it was asked before
    begun.wait(MOST_UNDOING)
    while keeper().statistics()["connections"] and boottime() < until:
        time.sleep(0.002)


class Signals:
    """Notes the signals that arrive, from before the wait for the lock until it is given back."""

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.wake, self.ring = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.ring, False)
        signal.set_wakeup_fd(self.ring, warn_on_full_buffer=False)
        self.note(ENDING)
        return self

    def note(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            before = signal.getsignal(number)
            self._before.setdefault(number, before)
            if before is not signal.SIG_IGN or number == signal.SIGCHLD:  # ignored: under nohup, or by a script's &
                signal.signal(number, self._arrives)

    def _arrives(self, number: int, frame: FrameType | None) -> None:
        self.arrived.append(number)

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, before in self._before.items():
            signal.signal(number, before)
        # The pipe stays: the lease, which another thread watches, may still write to it.

    def pause(self, seconds: float | None) -> None:
        """Waits until something happens, or for so many seconds."""
        select.select([self.wake], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self.wake, 512)

    def tell(self, *news: object) -> None:
        """Something has happened. Called in any thread."""
        with suppress(BlockingIOError):
            os.write(self.ring, b"\0")

    def check(self, lease: Any) -> None:
        """Raises Ended if a signal has come."""
        for number in self.arrived:
            raise Ended(number, lease)

    def while_waiting(self, acquire: Callable[[], Any], stop: Callable[[], None]) -> Any:
        """What `acquire` returns, which runs in a thread. After a signal `stop` ends it, and this raises Ended."""
        answers: list[tuple[Any, BaseException | None]] = []

        def ask() -> None:
            try:
                answers.append((acquire(), None))
            except BaseException as error:
                answers.append((None, error))
            self.tell()

        threading.Thread(target=ask, name="holdtight-run", daemon=True).start()
        stopped = 0
        while not answers:
            if self.arrived and not stopped:
                stop()
            elif len(self.arrived) > stopped > 0:
                break  # a second signal: its sender does not want to wait for an answer of the server
            stopped = len(self.arrived)
            self.pause(None)
        lease, error = answers[0] if answers else (None, None)
        self.check(lease)
        if error is not None:
            raise error
        return lease


class Running:
    """A command under a lease."""

    def __init__(
        self,
        lease: Any,
        child: Child,
        guardian: Guardian,
        terminal: Terminal,
        signals: Signals,
        *,
        ttl: float,
        on_lost: str,
        kill_after: float,
        say: Callable[..., None],
    ) -> None:
        self._lease, self._child, self._guardian, self._terminal = lease, child, guardian, terminal
        self._signals = signals
        self._ttl, self._on_lost, self._kill_after, self._say = ttl, on_lost, kill_after, say
        self._notice = kill_after if on_lost == "term" else min(KILL_EARLY, ttl / 20)
        """Seconds before the lease ends at which the command is told to end."""
        self.started = False
        """Whether the command could be started."""
        self.asked_to_end = False
        """Whether a signal that asks a program to end has come, and was passed on."""
        self._told = False
        self._kill_at = float("inf")
        self._warned = False

    @property
    def lost(self) -> bool:
        """Whether the command was told to end because the lease ended."""
        return self._told

    def __call__(self, environment: dict[str, str]) -> int:
        """Runs the command to its end. Returns its exit code as a shell would."""
        self._signals.note((*PASSED_ON, signal.SIGCHLD))
        self._lease.on_lost(self._signals.tell)
        try:
            return self._run(environment)
        finally:
            self._terminal.take_back(self._child.pid)

    def _run(self, environment: dict[str, str]) -> int:
        self._tell_guardian()
        why = self._child.start(environment, foreground=self._terminal.ours)
        self.started = not why
        if why:
            self._say(why, "NOT_STARTED")
        while True:
            status = self._status()
            if status is not None:
                break
            self._pass_on()
            self._look_at_the_lease()
            self._signals.pause(self._pause())
        left = self._end_group() if self._told else not self._group_ends(boottime() + MOMENT)
        self._guardian.dismiss()
        if left:
            self._say(
                f"{self._child.command[0]} has ended, and processes that it has started are still running",
                "STILL_RUNNING",
            )
        return status

    def _end_group(self) -> bool:
        """The command has ended because the lease did: so must everything that it started."""
        if self._on_lost == "term" and self._group_ends(self._kill_at):
            return False
        self._child.send(signal.SIGKILL)
        return not self._group_ends(boottime() + 1.0)

    def _group_ends(self, until: float) -> bool:
        """Waits until that moment for the end of all processes of the group, and says whether it has come."""
        while self._child.running():
            if boottime() >= until:
                return False
            time.sleep(0.005)
        return True

    def _status(self) -> int | None:
        """The exit code once the command has ended."""
        pid, status = os.waitpid(self._child.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if not os.WIFSTOPPED(status):
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._is_stopped(os.WSTOPSIG(status))
        return None

    def _is_stopped(self, number: int) -> None:
        """What stops the command at the terminal stops us as well: so the shell knows it, and `fg` or `bg` goes on with
        both."""
        terminal, command = self._terminal, self._child.pid
        foreground = terminal.ours or terminal.belongs_to(command)
        if not (foreground and number in WANTING):  # else `fg` came meanwhile, which sends no signal to a job that runs
            if terminal.fd < 0 or self._told or (number == signal.SIGSTOP and not foreground):
                return  # another process has stopped the command alone, and will continue it
            terminal.take_back(command)
            os.kill(os.getpid(), signal.SIGSTOP)
            # The shell has continued us, in the foreground or in the background.
            self._signals.arrived = [each for each in self._signals.arrived if each != signal.SIGCONT]
        if terminal.ours:
            terminal.give(command)
        self._child.send(signal.SIGCONT)

    def _pass_on(self) -> None:
        arrived, self._signals.arrived = self._signals.arrived, []
        for number in arrived:
            if number == signal.SIGCHLD:
                continue
            self.asked_to_end = self.asked_to_end or number in ASKING
            if number == signal.SIGCONT and self._terminal.ours:
                self._terminal.give(self._child.pid)
            self._child.send(number)

    def _look_at_the_lease(self) -> None:
        text = self._heed_the_lease()
        self._tell_guardian()
        if text:  # only now: perhaps nobody reads it
            self._say(text, LeaseLost.code, exit_says=self._on_lost != "warn")

    def _heed_the_lease(self) -> str:
        """Ends the command if the lease ends. Returns what is to be said of it."""
        left = self._lease.remaining()
        if self._on_lost == "warn":
            if self._warned or not self._lease.lost:
                return ""
            self._warned = True
            return f"{self._why()}; the command goes on without the lock (--on-lost warn)"
        if self._told:
            if boottime() >= self._kill_at:
                self._child.send(signal.SIGKILL)
            return ""
        if self._lease.lost:
            self._end_command(boottime() + self._kill_after)
            return f"{self._why()}; ending the command"
        if left <= self._notice:
            self._end_command(boottime() + left)
            text = f"no renewal has come through, and the lease on {self._lease.name!r} ends in {left:.1f} s"
            return f"{text}; ending the command"
        return ""

    def _end_command(self, kill_at: float) -> None:
        self._told = True
        if self._on_lost == "kill":
            self._kill_at = boottime()
            self._child.send(signal.SIGKILL)
            return
        self._child.send(signal.SIGTERM)
        self._child.send(signal.SIGCONT)  # a stopped command cannot end
        self._kill_at = kill_at

    def _why(self) -> str:
        reason = self._lease.reason
        return f"the lease on {self._lease.name!r} is lost ({reason.name if reason else 'UNKNOWN'})"

    def _tell_guardian(self) -> None:
        left = self._lease.remaining()
        if self._told:
            left = max(0.0, min(self._kill_at - boottime(), self._kill_after))
        self._guardian.tell(self._child.pid, left, self._notice, told=self._told)

    def _pause(self) -> float:
        if self._told:
            return max(0.01, min(self._kill_at - boottime(), self._ttl / LOOKS))
        until = self._lease.remaining() - self._notice
        return min(self._ttl / LOOKS, until) if until > 0 else self._ttl / LOOKS
