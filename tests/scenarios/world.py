"""The world a scenario plays in: a server of one flavour, one colour, one kind of lock, and its actors.

Times in scenarios are short where something is to end, and long where it must not: on a busy
machine, a lease of 300 ms is rightly lost.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from holdtight import AsyncLease, AsyncLock, AsyncLocks
from holdtight.events import Event, KeeperLate, Renewed
from holdtight.stores.times import AUDIT_MS
from tests.scenarios.colours import PATIENCE, Actor, Colour, Scene
from tests.support.lending import Shared
from tests.support.memory import MemoryStore
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

__all__ = ["KINDS", "World", "main_key"]

T = TypeVar("T")
TOMBSTONE_MS = 10_000
RECORD_MS = 100_000
"""40 s more than the longest ttl of a scenario: the record of a client stays as long as its locks may."""


class Factory(Protocol):
    """Makes the lock-like object of one kind that excludes all others under that name."""

    def __call__(self, locks: AsyncLocks, name: str, /, **options: Any) -> AsyncLock: ...


def _exclusive(locks: AsyncLocks, name: str, /, **options: Any) -> AsyncLock:
    return locks.lock(name, **options)


def _write(locks: AsyncLocks, name: str, /, **options: Any) -> AsyncLock:
    return locks.rwlock(name, **options).write()


def _only_permit(locks: AsyncLocks, name: str, /, **options: Any) -> AsyncLock:
    return locks.semaphore(name, permits=1, **options)


def _of_a_cohort(locks: AsyncLocks, name: str, /, **options: Any) -> AsyncLock:
    return locks.lock(name, cohort=True, **options)


KINDS: dict[str, Factory] = {
    "exclusive": _exclusive,
    "write": _write,
    "permit": _only_permit,
    "cohort": _of_a_cohort,
}


def main_key(name: str) -> str:
    return "ht:{" + name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D") + "}"


class World:
    """Everything that a scenario opens or starts must have ended with it, on the server too."""

    def __init__(self, colour: Colour, kind: str, server: Shared) -> None:
        self.colour = colour
        self.server = cast(RunningServer, server)
        """What scenarios on the memory store use of it is there too."""
        self._store = server if isinstance(server, MemoryStore) else None
        self._factory = KINDS[kind]
        self._clients: list[AsyncLocks] = []
        self._actors: list[Actor[Any]] = []
        self._proxies: list[Proxy] = []
        self._default: AsyncLocks | None = None
        self.forced_ms = 0
        """How much longer the note about a forced grant may stay: the time that its holder had left."""

    def run(self, scene: Scene[None]) -> None:
        self.colour.run(self._whole(scene))

    async def _whole(self, scene: Scene[None]) -> None:
        try:
            await scene
        finally:
            for client in self._clients:
                await client.aclose()
            for proxy in self._proxies:
                proxy.close()
        for actor in self._actors:
            assert actor.done, f"{actor} was left running"
        # A lease ends for its holder a little before it ends on the server: wait for that margin too.
        await self.until(lambda: not self.overstaying(), within=1, what=f"keys to go: {self.overstaying()}")

    # Locks.

    @property
    def blocking(self) -> bool:
        return self.colour.name == "sync"

    def locks(self, target: object = None, **options: Any) -> AsyncLocks:
        """A client of its own, closed when the scenario ends."""
        client = self.colour.open(self.server.url if target is None else target, **options)
        self._clients.append(client)
        return client

    @property
    def client(self) -> AsyncLocks:
        """The client of all actors that need none of their own."""
        if self._default is None:
            self._default = self.locks()
        return self._default

    def lock(self, name: str = "thing", *, of: AsyncLocks | None = None, **options: Any) -> AsyncLock:
        """A lock of the kind that this world is about."""
        return self._factory(of or self.client, name, **options)

    # Acting and waiting.

    def start(self, scene: Scene[T]) -> Actor[T]:
        """A thread or task of its own."""
        actor = self.colour.start(scene)
        self._actors.append(actor)
        return actor

    async def apart(self, scene: Scene[T]) -> T:
        """Runs it in another thread or task, and waits for it."""
        return await self.start(scene).result()

    async def sleep(self, seconds: float) -> None:
        await self.colour.sleep(seconds)

    async def until(self, condition: Callable[[], Any], *, within: float = PATIENCE, what: str = "") -> Any:
        return await self.colour.until(condition, within=within, what=what)

    async def in_line(self, lock: AsyncLock, count: int) -> None:
        """Waits until that many wait for the lock."""

        async def arrived() -> bool:
            return len((await lock.inspect()).waiters) == count

        await self.until(arrived, what=f"{count} to wait for {lock}")

    async def until_locked(self, name: str) -> None:
        async def locked() -> bool:
            return await self.client.lock(name).locked()

        await self.until(locked)

    async def line_up(self, lock: AsyncLock, *scenes: Scene[T]) -> list[Actor[T]]:
        """Starts waiters for the lock, each when the one before stands in line."""
        actors: list[Actor[T]] = []
        for count, scene in enumerate(scenes, 1):
            actors.append(self.start(scene))
            await self.in_line(lock, count)
        return actors

    async def renewed(self, lease: AsyncLease, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Waits until the lease has been renewed once more: until the time left has risen."""
        left = lease.remaining()

        def look() -> bool:
            nonlocal left
            meanwhile()
            lease.check()
            before, left = left, lease.remaining()
            return left > before

        await self.until(look)

    # What can be seen.

    def listen(self, client: AsyncLocks | None = None, *, renewals: bool = False) -> list[Event]:
        """All events of the client from now on; renewals only if asked for, and none about a busy machine."""
        heard: list[Event] = []

        def hear(event: Event) -> None:
            if not isinstance(event, KeeperLate) and (renewals or not isinstance(event, Renewed)):
                heard.append(event)

        (client or self.client).events.subscribe(hear)
        return heard

    def overstaying(self, *, tombstone_ms: int = TOMBSTONE_MS, db: int = 0) -> dict[str, int]:
        """Keys that stay longer than promised after the last holder and waiter; -1 for ever."""
        found: dict[str, int] = {}
        for key, left in self.server.time_left(db).items():
            limit = RECORD_MS if ":client:" in key else AUDIT_MS if key.endswith(":audit") else tombstone_ms
            if key.endswith(":w"):
                limit += self.forced_ms
            if left == -1 or left > limit:
                found[key] = left
        return found

    def tap(self) -> Callable[[], int]:
        """Counts the client's requests; call it before the client is used."""
        assert self._default is None
        if self._store is not None:
            return self._store.tap()
        proxy = Proxy(self.server.port)
        self._proxies.append(proxy)
        self._default = self.locks(proxy.url)
        return proxy.count

    def counted_client(self) -> tuple[AsyncLocks, Callable[[], int]]:
        """A client, and how many connections it has."""
        if self._store is not None:
            store, client = self._store, self.locks()
            return client, lambda: store.connections(client.client.id)
        name = f"client-{secrets.token_hex(8)}"
        client = self.locks(f"{self.server.url}?client_name={name}")
        return client, lambda: sum(each["name"] == name for each in self.server.clients())


class Stopwatch:
    def __init__(self) -> None:
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started
