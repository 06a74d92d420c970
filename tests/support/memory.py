"""A memory store in place of a server, for scenarios: what they read from it, and what they do to it.

store = MemoryStore()
Locks(store.url)
store.flushall()                     # as if it had lost its data
store.command("PTTL", "ht:{name}")   # of the keys that a server would have
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Self

from holdtight.stores.memory.place import stores
from holdtight.stores.memory.server import Server
from holdtight.stores.redis.keys import inbox

__all__ = ["MEMORY", "MemoryFlavour", "MemoryStore"]

_numbers = itertools.count(1)


class MemoryFlavour:
    """The memory store is always available."""

    name = "memory"

    def missing(self) -> str | None:
        return None

    def __repr__(self) -> str:
        return self.name


MEMORY = MemoryFlavour()


class MemoryStore:
    flavour = MEMORY
    pid = 0
    running = True

    def __init__(self) -> None:
        self._name = f"scenario {next(_numbers)}"
        self.url = f"memory://{self._name.replace(' ', '%20')}"

    @property
    def server(self) -> Server:
        return stores.server(self._name)

    # Looking

    def time_left(self, db: int = 0) -> dict[str, int]:
        """Every key with its PTTL: -1 if it stays for ever."""
        return {key.decode(): -1 if ms is None else ms for key, ms in self.server.time_left().items()}

    def keys(self, pattern: str = "*") -> list[str]:
        return sorted(key for key in self.time_left() if fnmatchcase(key, pattern))

    def command(self, *args: str | float) -> Any:
        """Runs a command of a server; only those that scenarios use to look at the store."""
        verb, left = args[0], self.time_left().get(str(args[1]), -2)
        if verb == "PTTL":
            return left
        if verb == "TTL":
            return left if left < 0 else round(left / 1000)
        if verb == "EXISTS":
            return int(left != -2)
        raise NotImplementedError(f"{verb} is not for the memory store: mark the scenario real_server, and say why")

    def connections(self, client: bytes) -> int:
        """How many links the client with this id has open."""
        own = inbox("ht", client, 0).removesuffix(b"0")
        return sum(each.startswith(own) for each in self.server.channels)

    def tap(self) -> Callable[[], int]:
        """Returns a function that counts the requests from now on."""
        before = self.server.requests
        return lambda: self.server.requests - before

    # Harming

    def flushall(self) -> None:
        self.server.forget_everything()

    def resume(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.url}>"
