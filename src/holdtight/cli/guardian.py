"""Ends a command's process group when the lease of `holdtight run` ends, also if `run` itself is paused or killed.

It runs as a script with `python -I -S` in a session of its own, and imports nothing of holdtight. On stdin it reads
lines: `GROUP DEADLINE NOTICE TOLD`, the process group, the moment at which the lease ends (on CLOCK_BOOTTIME), how many
seconds before it the group gets SIGTERM, and 1 if `run` has sent that already. Each line replaces the one before.
`done` ends the guardian. The end of stdin without it means that `run` is dead: the group gets SIGTERM at once.
"""

import os
import select
import signal
import time

CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LATER = 0.1
"""Seconds that `run` has to send SIGTERM itself, so that the group gets it once."""


def send(group: int, *numbers: int) -> bool:
    """Sends signals to the group. Returns whether anything is left of it."""
    for number in numbers:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # a member runs as another user
    return True


def main() -> None:
    group, deadline, notice, told = 0, float("inf"), 0.0, False
    pending, alive = b"", True
    while True:
        now = time.clock_gettime(CLOCK_ID)
        if group and now >= deadline:
            break
        term_at = deadline if told else deadline - notice + min(LATER, notice / 4)
        if group and now >= term_at:
            told = True
            if not send(group, signal.SIGTERM, signal.SIGCONT) and not alive:
                return
            continue
        pause = min(term_at - now, 3600.0)
        if not alive:
            time.sleep(min(pause, 0.05))
            if not send(group, 0):
                return
            continue
        if not select.select([0], [], [], max(0.0, pause))[0]:
            continue
        data = os.read(0, 4096)
        if not data:
            if not group:
                return
            alive = False
            deadline = min(deadline, time.clock_gettime(CLOCK_ID) + notice)
            if not told:
                told = True
                send(group, signal.SIGTERM, signal.SIGCONT)
            continue
        *lines, pending = (pending + data).split(b"\n")
        if b"done" in lines:
            return
        if lines:
            words = lines[-1].split()
            group, deadline, notice, told = int(words[0]), float(words[1]), float(words[2]), words[3] == b"1"
    until = time.monotonic() + 1
    while send(group, signal.SIGKILL) and time.monotonic() < until:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
