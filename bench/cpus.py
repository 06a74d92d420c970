"""Pinning. Latency on loopback has two modes, client and server on one core or on two: we choose."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cpus:
    """The cores of the server and of its clients; `None` if this machine does not tell."""

    server: int | None
    clients: int | None

    @classmethod
    def of_this_machine(cls) -> Cpus:
        if not hasattr(os, "sched_setaffinity"):
            return cls(None, None)
        usable = sorted(os.sched_getaffinity(0))
        first = usable[0]
        others = [cpu for cpu in usable[1:] if cpu not in _siblings(first)]
        return cls(first, others[0]) if others else cls(None, None)

    @property
    def pinned(self) -> bool:
        return self.server is not None

    def __str__(self) -> str:
        if not self.pinned:
            return "not pinned: this machine offers no two cores to choose from"
        apart = f"server on cpu {self.server}, clients on cpu {self.clients}"
        return f"{apart}; 'one core': both on cpu {self.clients}"


def _siblings(cpu: int) -> set[int]:
    """The hardware threads that share a core with `cpu`."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return {cpu}
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def pin(pid: int, cpus: Collection[int]) -> None:
    """Every thread of the process: the call for a pid alone moves only its main thread."""
    if not hasattr(os, "sched_setaffinity"):
        return
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except ProcessLookupError:
            continue


def used_by(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_share(seconds: float = 1.0) -> float | None:
    """How much of the machine other processes use while we do nothing. None where the system does not say."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None or after[1] == before[1]:
        return None
    return 1 - (after[0] - before[0]) / (after[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """Idle and all, since the machine started."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    ticks = [int(field) for field in fields[:8]]
    return ticks[3] + ticks[4], sum(ticks)


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
