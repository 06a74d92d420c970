"""The memory stores of this process, by name, and the place that connects clients to them."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdtight.base import process
from holdtight.base.clock import boottime
from holdtight.config.targets import Memory
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client
from holdtight.stores.memory.link import MemoryLink, open_link
from holdtight.stores.memory.server import Server

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime

__all__ = ["MemoryPlace", "Stores", "micros", "stores"]

KEPT = 64


class Stores:
    """Servers by name. A server is dropped only when it has no connections and no data: it is then the same as a new
    one."""

    def __init__(self, micros: Callable[[], int]) -> None:
        self._micros = micros
        self._servers: dict[str, Server] = {}
        self._changing = threading.RLock()
        self._prune_at = KEPT
        process.tell_of_fork(self)

    def server(self, name: str) -> Server:
        with self._changing:
            found = self._servers.get(name)
            if found is None:
                if len(self._servers) >= self._prune_at:
                    self._prune()
                found = self._servers[name] = Server(self._micros)
            return found

    def open(self, name: str, client: Client, runtime: "Runtime") -> MemoryLink:
        with self._changing:
            server = self.server(name)
            server.expected += 1  # so that it is not dropped before its link exists
        try:
            return open_link(server, client, runtime)
        finally:
            with self._changing:
                server.expected -= 1

    def _prune(self) -> None:
        for name, server in list(self._servers.items()):
            if server.empty:
                del self._servers[name]
        self._prune_at = max(KEPT, 2 * len(self._servers))

    def after_fork(self) -> None:
        self._changing = threading.RLock()
        for server in self._servers.values():
            server.start_anew()


_START = time.time() - boottime()


def micros() -> int:
    """The time of day at our start, advanced by a clock that cannot be set."""
    return int((_START + boottime()) * 1e6)


stores = Stores(micros)
"""The stores behind `memory://` URLs."""


class MemoryPlace(Place):
    """A store in this process."""

    in_process = True
    reads_by_any_link = False

    def __init__(self, target: Memory, client: Client, runtime: "Runtime") -> None:
        super().__init__(client, runtime, target.display())
        self._name = target.name
        self._stores: Stores = stores if target.realm is None else target.realm.stores

    def open(self, timeout: float) -> MemoryLink:
        return self._stores.open(self._name, self.client, self.runtime)
