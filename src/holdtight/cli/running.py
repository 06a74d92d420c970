"""What `holdtight run` does between the grant and the command's end: passes signals on, watches the lease, and ends the
command before another holder can have the lock.

One loop waits for a pipe. Signal handlers and the lease's `on_lost` write to it; nothing else happens outside the loop.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

from holdtight.base.clock import boottime
from holdtight.cli.child import Child, Guardian, Terminal

__all__ = ["Ended", "Running", "Waiting", "end_by"]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
"""Signals that end `run` while it waits for the lock."""
PASSED_ON = (*ENDING, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)
LOOKS = 12
"""How often in a ttl the loop looks how much of the lease is left."""
MOMENT = 0.1
"""Seconds that processes of the group have to end with the command before they count as left behind."""
KILL_EARLY = 0.05
"""Seconds before the deadline at which `--on-lost kill` kills: a process needs a moment to die."""


class Ended(BaseException):
    """A signal that ends `run` while it waits for the lock. No Exception, so that nothing on the way catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def end_by(number: int) -> None:
    """Ends this process by that signal, so that its parent sees the usual status."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Waiting:
    """While the caller waits for the lock, a signal raises Ended in it."""

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in ENDING}
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # as under nohup, and in the background of a script
                signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        for each, before in self._before.items():
            if before is not signal.SIG_IGN:
                signal.signal(each, signal.SIG_IGN)  # leaving the line takes a moment, and one end is enough
        raise Ended(number)

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:
                signal.signal(number, before)


def _wake(ring: int, lease: object) -> None:
    os.write(ring, b"\0")


class Running:
    """A command under a lease."""

    def __init__(
        self,
        lease: Any,
        child: Child,
        guardian: Guardian,
        terminal: Terminal,
        *,
        ttl: float,
        on_lost: str,
        kill_after: float,
        say: Callable[[str], None],
    ) -> None:
        self._lease, self._child, self._guardian, self._terminal = lease, child, guardian, terminal
        self._ttl, self._on_lost, self._kill_after, self._say = ttl, on_lost, kill_after, say
        self._notice = kill_after if on_lost == "term" else min(KILL_EARLY, ttl / 20)
        """Seconds before the lease ends at which the command is told to end."""
        self._foreground = False
        self._arrived: list[int] = []
        self._told = False
        self._kill_at = float("inf")
        self._warned = False

    @property
    def lost(self) -> bool:
        """Whether the command was told to end because the lease ended."""
        return self._told

    def __call__(self, environment: dict[str, str]) -> int:
        """Runs the command to its end. Returns its exit code as a shell would."""
        wake, ring = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(ring, False)
        before = {number: signal.getsignal(number) for number in (*PASSED_ON, signal.SIGCHLD)}
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        try:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN or number == signal.SIGCHLD:
                    signal.signal(number, self._note)
            self._lease.on_lost(partial(_wake, ring))
            return self._run(environment, wake)
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._foreground:
                self._terminal.give(os.getpgrp())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(number)

    def _run(self, environment: dict[str, str], wake: int) -> int:
        self._tell_guardian()
        self._foreground = self._terminal.ours
        why = self._child.start(environment, foreground=self._foreground)
        if why:
            self._say(why)
        while True:
            status = self._status()
            if status is not None:
                break
            self._look_at_the_lease()
            select.select([wake], [], [], self._pause())
            with suppress(BlockingIOError):
                os.read(wake, 512)
            self._pass_on()
        left = self._end_group() if self._told else not self._group_ends(boottime() + MOMENT)
        self._guardian.dismiss()
        if left:
            self._say(f"{self._child.command[0]} has ended, and processes that it has started are still running")
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
        """The exit code once the command has ended. A command that was stopped at the terminal stops us as well."""
        pid, status = os.waitpid(self._child.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if not os.WIFSTOPPED(status):
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if self._foreground:
            self._terminal.give(os.getpgrp())
            os.kill(os.getpid(), signal.SIGSTOP)
            # The shell has continued us, in the foreground or in the background.
            self._arrived = [number for number in self._arrived if number != signal.SIGCONT]
            if self._terminal.ours:
                self._terminal.give(self._child.pid)
            self._child.send(signal.SIGCONT)
        return None

    def _pass_on(self) -> None:
        arrived, self._arrived = self._arrived, []
        for number in arrived:
            if number == signal.SIGCHLD:
                continue
            if number == signal.SIGCONT and self._foreground and self._terminal.ours:
                self._terminal.give(self._child.pid)
            self._child.send(number)

    def _look_at_the_lease(self) -> None:
        left = self._lease.remaining()
        if self._on_lost == "warn":
            if self._lease.lost and not self._warned:
                self._warned = True
                self._say(f"{self._why()}; the command goes on without the lock (--on-lost warn)")
            return
        if not self._told and self._lease.lost:
            self._end_command(f"{self._why()}; ending the command", boottime() + self._kill_after)
        elif not self._told and left <= self._notice:
            text = f"no renewal has come through, and the lease on {self._lease.name!r} ends in {left:.1f} s"
            self._end_command(f"{text}; ending the command", boottime() + left)
        elif self._told and boottime() >= self._kill_at:
            self._child.send(signal.SIGKILL)
        self._tell_guardian()

    def _end_command(self, text: str, kill_at: float) -> None:
        self._say(text)
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
