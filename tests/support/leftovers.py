"""Leftovers of a process: child processes, and threads that keep it alive."""

from __future__ import annotations

import os
import threading
from pathlib import Path

__all__ = ["alive", "children", "threads"]

# Started by the standard library on its own account, once per process.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def children() -> dict[int, str]:
    """Pid and command of each child, zombies included. Empty where there is no /proc to tell."""
    found: dict[int, str] = {}
    for task in Path("/proc/self/task").glob("*"):
        try:
            pids = (task / "children").read_text().split()
        except OSError:
            continue
        for pid in map(int, pids):
            command = _command(pid)
            if not any(helper in command for helper in _HELPERS):
                found[pid] = command
    return found


def threads() -> set[threading.Thread]:
    """The threads that the interpreter would wait for at its end."""
    return {thread for thread in threading.enumerate() if not thread.daemon} - {threading.main_thread()}


def alive(pid: int) -> bool:
    """Whether a process, child or not, runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except ProcessLookupError:
        return False
    except OSError:
        return not Path("/proc/self").exists()  # no /proc here: the signal went through


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    return words[:200] or "a zombie"
