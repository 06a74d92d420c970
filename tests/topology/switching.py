"""Two servers that both take writes, and Sentinels that name one, and later the other: a failover of which the old
master, and the Sentinel that has not heard of it, know nothing."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.support.processes import wait_for
from tests.support.sentinels import SERVICE, SentinelServer
from tests.support.servers import VALKEY_9, RunningServer, start

__all__ = ["Switch"]


class LaterSentinel(SentinelServer):
    """It has seen as many failovers as `epoch` says: the client believes the one that has seen most."""

    epoch = 1

    def __init__(self, master: RunningServer, epoch: int) -> None:
        self.epoch = epoch
        super().__init__(VALKEY_9, master.port)

    def _config(self) -> list[str]:
        return [*super()._config(), f"sentinel config-epoch {SERVICE} {self.epoch}"]


class Switch:
    """Two servers that both take writes, and two Sentinels. The second one, once it runs, names the second server."""

    def __init__(self, stack: ExitStack) -> None:
        self.old, self.new = (stack.enter_context(start(VALKEY_9)) for _ in range(2))
        first = stack.enter_context(LaterSentinel(self.old, 1))
        self._second = stack.enter_context(LaterSentinel(self.new, 2))
        self._second.kill()
        self.url = f"redis+sentinel://127.0.0.1:{first.port},127.0.0.1:{self._second.port}/{SERVICE}"

    def happen(self, locks: Any) -> None:
        """Returns when the client has left the old server."""
        told: list[tuple[str, str]] = []
        locks.place.tell_failover = lambda *servers: told.append(servers)  # the last that it does
        self._second.restart()
        wait_for(lambda: told, what="the client to be told")
