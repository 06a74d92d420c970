"""Both colours behind one interface, so that every scenario is written once.

A scenario is an `async def` that speaks to `AsyncLocks`. In the asyncio colour it gets one, on an event loop
of its own: asyncio's or, as servers like uvicorn prefer, uvloop's. In the blocking colour it gets a wrapper around
`Locks`: every `await` of a wrapped object calls the blocking method and comes back at once, so that the coroutine
runs in its thread from beginning to end without a loop. What acts is an *actor*: a task in one colour, a thread in
the other.
"""

import asyncio
import functools
import inspect
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

import uvloop

from holdtight import (
    AsyncLease,
    AsyncLock,
    AsyncLocks,
    AsyncMulti,
    AsyncReadWriteLock,
    AsyncSemaphore,
    AuditRecord,
    Lease,
    Lock,
    LockInfo,
    Locks,
    Multi,
    ReadWriteLock,
)

__all__ = ["COLOURS", "PATIENCE", "Actor", "Colour", "bare"]

T = TypeVar("T")
Scene = Coroutine[Any, Any, T]
PATIENCE = 30.0
"""Seconds after which a wait for an actor fails."""
LONGEST = 90.0
"""Seconds after which a scenario hangs."""


class Actor(ABC, Generic[T]):
    """Acts on its own: a task or a thread."""

    @property
    @abstractmethod
    def done(self) -> bool: ...

    @abstractmethod
    async def result(self, within: float = PATIENCE) -> T:
        """Its result: returns the value, or raises the exception here."""


class Colour(ABC):
    name: str

    @abstractmethod
    def run(self, scene: Scene[T]) -> T:
        """Runs the whole scenario. AssertionError if it hangs."""

    @abstractmethod
    def open(self, target: Any, **options: Any) -> AsyncLocks: ...

    @abstractmethod
    def start(self, scene: Scene[T]) -> Actor[T]: ...

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function of this colour."""

    @abstractmethod
    def function(self, scene: Callable[..., Scene[Any]]) -> Callable[..., Any]:
        """A function of this colour that does what the scene does."""

    @abstractmethod
    def dressed(self, what: Any) -> Any:
        """A Locks, Lock or Lease of this colour, as scenarios see it."""

    async def until(self, condition: Callable[[], Any], *, within: float = PATIENCE, what: str = "") -> Any:
        """Asks again and again until the answer is true, and returns it."""
        end, pause = time.monotonic() + within, 0.0005
        while True:
            answer = condition()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            if time.monotonic() >= end:
                raise AssertionError(f"not within {within} s: {what or inspect.getsource(condition).strip()}")
            await self.sleep(pause)
            pause = min(pause * 2, 0.02)


def bare(what: Any) -> Any:
    """The object itself, as a user of its colour has it."""
    return what.real if isinstance(what, Dress) else what


# asyncio


class Task(Actor[T]):
    def __init__(self, scene: Scene[T]) -> None:
        self._task = asyncio.create_task(scene)

    @property
    def done(self) -> bool:
        return self._task.done()

    async def result(self, within: float = PATIENCE) -> T:
        done, _ = await asyncio.wait([self._task], timeout=within)
        assert done, f"{self._task} still runs after {within} s"
        return self._task.result()


class Asyncio(Colour):
    name = "asyncio"

    def run(self, scene: Scene[T]) -> T:
        async def limited() -> T:
            return await Task(scene).result(LONGEST)

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(limited())

    @staticmethod
    def new_loop() -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def open(self, target: Any, **options: Any) -> AsyncLocks:
        return AsyncLocks(target, **options)

    def start(self, scene: Scene[T]) -> Actor[T]:
        return Task(scene)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await function(*args)

    def function(self, scene: Callable[..., Scene[Any]]) -> Callable[..., Any]:
        return scene

    def dressed(self, what: Any) -> Any:
        return what


class Uvloop(Asyncio):
    name = "uvloop"

    @staticmethod
    def new_loop() -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()


# Blocking


def _finish(scene: Scene[T]) -> T:
    """Runs a coroutine that never waits for an event loop."""
    try:
        scene.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    scene.close()
    raise RuntimeError("a blocking scenario awaited what only an event loop can give")


class Thread(Actor[T]):
    def __init__(self, scene: Scene[T]) -> None:
        self._value: T
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(scene,), name="an actor", daemon=True)
        self._thread.start()

    def _run(self, scene: Scene[T]) -> None:
        try:
            self._value = _finish(scene)
        except BaseException as error:
            self._error = error
        finally:
            del scene
            self._ended.set()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    async def result(self, within: float = PATIENCE) -> T:
        return self.join(within)

    def join(self, within: float) -> T:
        if not self._ended.wait(within):
            frame = sys._current_frames().get(self._thread.ident or 0)
            where = "".join(traceback.format_stack(frame)) if frame else ""
            raise AssertionError(f"{self._thread.name} still runs after {within} s:\n{where}")
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._value


class Blocking(Colour):
    name = "sync"

    def run(self, scene: Scene[T]) -> T:
        return Thread(scene).join(LONGEST)

    def open(self, target: Any, **options: Any) -> AsyncLocks:
        return cast(AsyncLocks, DressedLocks(Locks(target, **options)))

    def start(self, scene: Scene[T]) -> Actor[T]:
        return Thread(scene)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def function(self, scene: Callable[..., Scene[Any]]) -> Callable[..., Any]:
        @functools.wraps(scene)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return _finish(scene(*args, **kwargs))

        del plain.__wrapped__  # otherwise inspect would find a coroutine function there
        return plain

    def dressed(self, what: Any) -> Any:
        if isinstance(what, Locks):
            return DressedLocks(what)
        return DressedLock(what) if isinstance(what, (Lock, Multi)) else DressedLease(what)


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


class DressedHold(Dress):
    real: Any

    async def __aenter__(self) -> AsyncLease:
        return cast(AsyncLease, DressedLease(self.real.__enter__()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.real.__exit__(kind, error, trace)


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
        locked = self.real(Blocking().function(scene))

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


COLOURS: dict[str, Colour] = {colour.name: colour for colour in (Blocking(), Asyncio(), Uvloop())}
