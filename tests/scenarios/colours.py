"""Both colours behind one interface, so that every scenario is written once.

A scenario is an `async def` that speaks to `AsyncLocks`. In the asyncio colour it gets one, on an event loop
of its own: asyncio's or, as servers like uvicorn prefer, uvloop's. In the blocking colour it gets a wrapper around
`Locks`: every `await` of a wrapped object calls the blocking method and comes back at once, so that the coroutine
runs in its thread from beginning to end without a loop. What acts is an *actor*: a task in one colour, a thread in
the other.
"""

import asyncio
import inspect
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import uvloop

from holdtight import (
    AsyncLocks,
    Lock,
    Locks,
    Multi,
)
from tests.scenarios.dressed import DressedLease, DressedLock, DressedLocks, Scene, as_blocking, bare, finish

__all__ = ["COLOURS", "PATIENCE", "Actor", "Colour", "Scene", "bare"]

T = TypeVar("T")
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


class Thread(Actor[T]):
    def __init__(self, scene: Scene[T]) -> None:
        self._value: T
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(scene,), name="an actor", daemon=True)
        self._thread.start()

    def _run(self, scene: Scene[T]) -> None:
        try:
            self._value = finish(scene)
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
        return as_blocking(scene)

    def dressed(self, what: Any) -> Any:
        if isinstance(what, Locks):
            return DressedLocks(what)
        return DressedLock(what) if isinstance(what, (Lock, Multi)) else DressedLease(what)


COLOURS: dict[str, Colour] = {colour.name: colour for colour in (Blocking(), Asyncio(), Uvloop())}
