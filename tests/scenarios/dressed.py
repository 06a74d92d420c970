"""Objects of the blocking colour, dressed as those of asyncio: every `await` calls the blocking method."""

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar, cast

from holdtight import (
    AsyncLease,
    AsyncLock,
    AsyncMulti,
    AsyncReadWriteLock,
    AsyncSemaphore,
    AuditRecord,
    Lease,
    LockInfo,
    Locks,
    ReadWriteLock,
)

__all__ = ["DressedLease", "DressedLock", "DressedLocks", "Scene", "as_blocking", "bare", "finish"]

T = TypeVar("T")
Scene = Coroutine[Any, Any, T]


def finish(scene: Scene[T]) -> T:
    """Runs a coroutine that never waits for an event loop."""
    try:
        scene.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    scene.close()
    raise RuntimeError("a blocking scenario awaited what only an event loop can give")


def as_blocking(scene: Callable[..., Scene[Any]]) -> Callable[..., Any]:
    """A function of the blocking colour."""

    @functools.wraps(scene)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return finish(scene(*args, **kwargs))

    del plain.__wrapped__  # otherwise inspect would find a coroutine function there
    cast(Any, plain).__signature__ = inspect.signature(scene)
    return plain


def bare(what: Any) -> Any:
    """The object itself, as a user of its colour has it."""
    return what.real if isinstance(what, Dress) else what


class Dress:
    """An object of the blocking colour. Methods that are not listed below neither block nor await."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __eq__(self, other: object) -> bool:
        return self.real is bare(other)

    def __hash__(self) -> int:
        return id(self.real)

    def __repr__(self) -> str:
        return repr(self.real)


class DressedLocks(Dress):
    real: Locks

    def lock(self, name: str, **options: Any) -> AsyncLock:
        return cast(AsyncLock, DressedLock(self.real.lock(name, **options)))

    def rwlock(self, name: str, **options: Any) -> AsyncReadWriteLock:
        return cast(AsyncReadWriteLock, DressedReadWriteLock(self.real.rwlock(name, **options)))

    def semaphore(self, name: str, **options: Any) -> AsyncSemaphore:
        return cast(AsyncSemaphore, DressedLock(self.real.semaphore(name, **options)))

    def multi(self, *names_or_locks: Any, **options: Any) -> AsyncMulti:
        return cast(AsyncMulti, DressedLock(self.real.multi(*map(bare, names_or_locks), **options)))

    def synchronized(self, name: Any, **options: Any) -> Any:
        return dressed_job(self.real.synchronized(name, **options))

    def single_flight(self, name: Any, **options: Any) -> Any:
        return DressedFlight(self.real.single_flight(name, **options))

    def leader(self, name: Any, **options: Any) -> Any:
        return DressedLeader(self.real.leader(name, **options))

    def once(self, name: Any, **options: Any) -> Any:
        return dressed_job(self.real.once(name, **options), "last", "forget")

    async def inspect(self, name: str) -> LockInfo:
        return self.real.inspect(name)

    async def list(self, pattern: Any = "*") -> AsyncIterator[LockInfo]:
        for info in self.real.list(pattern):
            yield info

    async def force_release(self, name: Any, **options: Any) -> AuditRecord | None:
        return self.real.force_release(name, **options)

    async def audit(self, *limit: Any, **options: Any) -> Any:
        return self.real.audit(*limit, **options)

    async def doctor(self) -> Any:
        return self.real.doctor()

    async def adopt(self, text: str, **options: Any) -> AsyncLease:
        return cast(AsyncLease, DressedLease(self.real.adopt(text, **options)))

    async def aclose(self) -> None:
        self.real.close()

    async def __aenter__(self) -> Any:
        assert self.real.__enter__() is self.real
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.real.__exit__(kind, error, trace)


def dressed_job(decorate: Callable[[Any], Any], *awaited: str) -> Any:
    """A decorator for scenes; `awaited` are the helpers that block."""

    def decorated(scene: Callable[..., Scene[Any]]) -> Any:
        job = decorate(as_blocking(scene))

        def coloured(call: Callable[..., Any]) -> Any:
            async def called(*args: Any, **kwargs: Any) -> Any:
                return call(*args, **kwargs)

            return called

        made: Any = functools.wraps(scene)(coloured(job))
        made.name = job.name
        for word in awaited:
            setattr(made, word, coloured(getattr(job, word)))
        return made

    return decorated


class DressedFlight(Dress):
    def __call__(self, scene: Callable[..., Scene[Any]]) -> Any:
        return dressed_job(self.real, "refresh", "invalidate", "expire", "peek")(scene)

    async def get_or_create(self, scene: Callable[[], Scene[Any]]) -> Any:
        return self.real.get_or_create(as_blocking(scene))


class DressedHold(Dress):
    real: Any

    async def __aenter__(self) -> AsyncLease:
        return cast(AsyncLease, DressedLease(self.real.__enter__()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.real.__exit__(kind, error, trace)


class DressedLeader(DressedHold):
    async def __aenter__(self) -> AsyncLease:
        return cast(AsyncLease, DressedTerm(self.real.__enter__()))

    async def campaign(self, **options: Any) -> Any:
        return DressedTerm(self.real.campaign(**options))

    async def run(self, scene: Callable[[Any], Scene[Any]], **options: Any) -> None:
        self.real.run(lambda term: finish(scene(DressedTerm(term))), **options)

    async def current(self) -> Any:
        return self.real.current()

    async def contenders(self) -> Any:
        return self.real.contenders()

    async def observe(self) -> AsyncIterator[Any]:
        for each in self.real.observe():
            yield each


class DressedReadWriteLock(Dress):
    real: ReadWriteLock

    def read(self, **options: Any) -> AsyncLock:
        return cast(AsyncLock, DressedLock(self.real.read(**options)))

    def write(self, **options: Any) -> AsyncLock:
        return cast(AsyncLock, DressedLock(self.real.write(**options)))

    async def locked(self) -> bool:
        return self.real.locked()

    async def inspect(self) -> LockInfo:
        return self.real.inspect()


class DressedLock(DressedHold):
    real: Any

    async def acquire(self, *number: int, **options: Any) -> AsyncLease:
        return cast(AsyncLease, DressedLease(self.real.acquire(*number, **options)))

    async def try_acquire(self, *number: int) -> AsyncLease | None:
        lease = self.real.try_acquire(*number)
        return None if lease is None else cast(AsyncLease, DressedLease(lease))

    async def locked(self) -> bool:
        return bool(self.real.locked())

    async def inspect(self) -> LockInfo:
        return cast(LockInfo, self.real.inspect())

    def hold(self, *number: int, **options: Any) -> DressedHold:
        return DressedHold(self.real.hold(*number, **options))

    def __call__(self, scene: Callable[..., Scene[Any]]) -> Callable[..., Awaitable[Any]]:
        locked = self.real(as_blocking(scene))

        @functools.wraps(scene)
        async def called(*args: Any, **kwargs: Any) -> Any:
            return locked(*args, **kwargs)

        return called


class DressedLease(DressedHold):
    real: Lease

    async def __aenter__(self) -> AsyncLease:
        assert self.real.__enter__() is self.real
        return cast(AsyncLease, self)

    async def wait_lost(self, timeout: Any = None) -> bool:
        return self.real.wait_lost(timeout)

    async def renew(self, ttl: Any = None) -> None:
        self.real.renew(ttl)

    async def release(self) -> None:
        self.real.release()

    async def detach(self, ttl: Any = None) -> str:
        return self.real.detach(ttl)

    async def downgrade(self) -> AsyncLease:
        return cast(AsyncLease, DressedLease(self.real.downgrade()))


class DressedTerm(DressedLease):
    async def resign(self) -> None:
        self.real.resign()  # type: ignore[attr-defined]

    async def proclaim(self, label: str) -> None:
        self.real.proclaim(label)  # type: ignore[attr-defined]
