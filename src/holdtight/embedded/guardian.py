"""Runs one private server for the process at the other end of its stdin, and ends when that process ends.

It runs as a script with `python -I -S`, so that it starts fast. It is the server's parent: it reaps the server, so that
no zombie remains, and only the guardian signals it, so that no signal can hit another process that got the same process
id. A parent-death signal would not do: it follows the *thread* that started the server, and exists on Linux only.

Orders are single bytes on stdin; the guardian answers each on stdout with the server's process id, 0 for none. The end
of stdin, by `close()` or by the death of the owning process, ends the server and removes its folder.
"""

import os
import select
import signal
import sys
import time

START, KILL, PAUSE, RESUME, ASK = b"+", b"k", b"s", b"c", b"?"


class _Guardian:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.pid = 0

    def obey(self, order: bytes) -> None:
        self.reap(os.WNOHANG)
        if order == START and not self.pid:
            self.pid = os.posix_spawn(
                self._command[0],
                self._command,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, 2, 1),
                ],
                setsigdef=[signal.SIGPIPE],
            )
        elif order == KILL:
            self.kill()
        elif order == PAUSE and self.pid:
            os.kill(self.pid, signal.SIGSTOP)
            self._await_stop()
        elif order == RESUME and self.pid:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.reap(0)

    def reap(self, options: int) -> int:
        """The wait status if it has changed, else 0; forgets the process if it is gone."""
        if not self.pid:
            return 0
        pid, status = os.waitpid(self.pid, options)
        if pid and not os.WIFSTOPPED(status):
            self.pid = 0
        return status if pid else 0

    def _await_stop(self) -> None:
        # Bounded: waitpid reports nothing if another process has stopped the server before.
        deadline = time.monotonic() + 1
        while self.pid and not self.reap(os.WNOHANG | os.WUNTRACED) and time.monotonic() < deadline:
            time.sleep(0.001)


def _wake_up(number: int, frame: object) -> None:
    """Does nothing: a signal writes to the wake-up pipe only if it has a handler."""


def main(folder: str, *command: str) -> None:
    wake, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake_up)
    guardian = _Guardian(list(command))
    try:
        while True:
            ready, _, _ = select.select([0, wake], [], [])
            if wake in ready:
                os.read(wake, 512)
                guardian.reap(os.WNOHANG)
            if 0 in ready:
                order = os.read(0, 1)
                if not order:
                    break
                guardian.obey(order)
                os.write(1, b"%d\n" % guardian.pid)
    finally:
        guardian.kill()
        import shutil  # slow to load, and needed only now

        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
