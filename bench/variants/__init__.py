"""The interface of a variant. Each implements what it has; a drill that needs more fails with a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Protocol


class Runner(Protocol):
    """An asyncio client that is open."""

    async def repeat(self, name: str, until: float) -> int:
        """Takes and releases `name` until `time.perf_counter()` reaches the end; returns how often."""
        ...


class Renamer(Runner, Protocol):
    """A variant whose tasks can take a new name each time."""

    async def renamed(self, prefix: str, until: float) -> int: ...


class Rover(Runner, Protocol):
    """A variant whose tasks can go over given names."""

    async def among(self, names: Iterator[str], until: float) -> int: ...


class Taker(Runner, Protocol):
    """A variant whose acquires can be timed by themselves."""

    async def take(self, name: str) -> object: ...
    async def give(self, held: Any) -> None: ...


class Variant:
    """One way of locking. `pair`, `take` and `give` must be safe in any thread."""

    PACKAGES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, url: str) -> None:
        self.url = url

    def versions(self) -> dict[str, str]:
        found = {}
        for package in self.PACKAGES:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "from source"
        return found

    def pair(self, name: str) -> None:
        """Take the free lock `name` and release it, the way a user of this library writes it."""
        raise NotImplementedError(f"{type(self).__name__} has no pair")

    def take(self, name: str) -> object:
        """Wait for `name` as long as it takes."""
        raise NotImplementedError(f"{type(self).__name__} cannot wait")

    def give(self, held: object) -> None:
        raise NotImplementedError(f"{type(self).__name__} cannot wait")

    def runner(self, tasks: int) -> AbstractAsyncContextManager[Runner]:
        raise NotImplementedError(f"{type(self).__name__} has no asyncio client")

    def hold(self, names: list[str], ttl: float) -> None:
        """Take all of these and keep them, without renewal."""
        raise NotImplementedError(f"{type(self).__name__} cannot hold many")

    def close(self) -> None:
        """The worker ends."""
