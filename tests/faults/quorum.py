"""Five servers of the test's own. Each client may have its own proxies to them, which can cut it off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Self, TypeAlias

from holdtight import Locks
from tests.faults.clients import Client
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

__all__ = ["Nodes", "Side", "StartNodes", "of_available_nodes", "votes_of", "warm"]


class Side:
    """A client's own proxies to all nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._stack = ExitStack()
        self.proxies = [self._stack.enter_context(Proxy(server.port)) for server in nodes.servers]
        self.urls = [proxy.url for proxy in self.proxies]

    def cut_off(self, indexes: Iterable[int], *, silently: bool) -> None:
        for index in indexes:
            proxy = self.proxies[index]
            if silently:
                proxy.black_hole()
            else:
                proxy.refuse()
                proxy.cut()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.heal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


class Nodes:
    def __init__(self, servers: list[RunningServer]) -> None:
        self.servers = servers
        self.urls = [server.url for server in servers]

    def bless(self, **settings: Any) -> None:
        with Locks(self.urls, **settings) as locks:
            assert set(locks.bless().values()) == {"blessed"}


StartNodes: TypeAlias = Callable[..., Nodes]


def votes_of(nodes: Nodes, name: str) -> list[bytes]:
    """The owner that each node's key names; empty for none."""
    found: list[bytes] = []
    for server in nodes.servers:
        with server.connect() as client:
            value = client.call("GET", f"ht:{{{name}}}")
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value or b""
        found.append(raw[3:27] if raw[:2] == b"x1" else b"")
    return found


def warm(client: Client, nodes: Nodes, name: str = "warm") -> None:
    """Waits until the client has a connection to every node, all of them vote, and nothing is held."""

    def on_all() -> bool:
        lease = client.acquire(name, wait=5)
        end = time.monotonic() + 0.2
        while not (found := all(votes_of(nodes, name))) and time.monotonic() < end:
            pass
        client.release(lease)
        return found

    wait_for(on_all)
    wait_for(lambda: not any(votes_of(nodes, name)))


def of_available_nodes(client: Client, reachable: int) -> None:
    """What holdtight refuses to do: a majority of the nodes that happen to be available."""
    client.locks.place.store.majority = reachable // 2 + 1
