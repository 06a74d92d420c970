"""How much a busy machine delays a process: what is promised about time is judged without that.

delay = Delay(os.getpid(), server.pid)
...
delay.check(lambda: lease.lost, since, within=1.0)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.processes import wait_for

__all__ = ["Delay"]


class Delay:
    """Counts from now on the time for which the client and its servers were ready to run while the processors ran
    others: that of the thread of the client that waited longest, and of one server. 0 where the system does not tell.
    Threads wait at the same time, so the sum over all of them would excuse too much."""

    def __init__(self, client: int, *servers: int) -> None:
        self._client = client
        self._pids = (client, *servers)
        self._before = self._counted()

    def _counted(self) -> dict[tuple[int, str], int]:
        found: dict[tuple[int, str], int] = {}
        for pid in self._pids:
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with suppress(OSError, ValueError, IndexError):
                    found[pid, task.name] = int((task / "schedstat").read_text().split()[1])
        return found

    def seconds(self) -> float:
        waited = {task: after - self._before.get(task, 0) for task, after in self._counted().items()}
        of_client = max((each for (pid, _), each in waited.items() if pid == self._client), default=0)
        of_server = max((each for (pid, _), each in waited.items() if pid != self._client), default=0)
        return (of_client + of_server) / 1e9

    def check(self, condition: Callable[[], object], since: float, *, within: float, what: str) -> float:
        """Waits for it, and asserts how long it took since then. Returns that."""
        wait_for(condition, within=30, what=what)
        took, delayed = time.monotonic() - since, self.seconds()
        assert took - delayed < within, f"{what}: {took:.2f} s, of which the machine was busy for {delayed:.2f} s"
        return took
