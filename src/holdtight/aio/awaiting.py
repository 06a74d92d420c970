"""Hints for a forgotten `await`: `lock.acquire()` returns a coroutine that says so when it is used as a lease, and
`lock.locked()` one that says so when it is used as an answer."""

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, NoReturn, ParamSpec, TypeVar, cast

from holdtight.aio.lease import AsyncLease

__all__ = ["gives_a_lease", "gives_a_term", "gives_an_answer"]

P = ParamSpec("P")
R = TypeVar("R")
_mark: Callable[[Any], object] = getattr(inspect, "markcoroutinefunction", bool)  # from Python 3.12 on
_new = object.__new__


def _hint(attribute: str) -> property:
    def get(self: Any) -> NoReturn:
        raise AttributeError(f"{self._forgotten(self._use)}', and then {self._noun}.{attribute}")

    return property(get)


def _passed_on(attribute: str) -> property:
    return property(lambda self: getattr(self._coroutine, attribute))


class Awaited(Coroutine[Any, Any, Any]):
    """The coroutine of one call, which gives an answer. Await it, or make a task of it."""

    __slots__ = ("_coroutine",)

    _coroutine: Coroutine[Any, Any, Any]
    _noun: ClassVar[str] = "answer"
    _use: ClassVar[str] = "if"
    """The words before `await` in the usual use of such a call."""
    __name__ = _passed_on("__qualname__")  # pyright: ignore[reportAssignmentType]
    """Shown by the repr of a task."""

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    @property
    def _has_begun(self) -> bool:
        return inspect.getcoroutinestate(self._coroutine) != inspect.CORO_CREATED

    def _forgotten(self, what: str) -> str:
        if not self._has_begun:
            self._coroutine.close()  # the hint says what Python's warning about it would say
        name = cast(Any, self._coroutine).__name__
        return f"{name}() was not awaited, so there is no {self._noun} yet: write '{what} await ...{name}(...)"

    def __bool__(self) -> bool:
        # From Python 3.13 on, the repr of a task asks whether it has a coroutine.
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if self._has_begun or caller.f_globals.get("__name__", "").startswith("asyncio."):
            return True
        raise TypeError(f"{self._forgotten(self._use)}'")

    def __repr__(self) -> str:
        return f"<{self._coroutine!r}, to be awaited>"


class AwaitedLease(Awaited):
    # No `__getattr__`, which would slow down every access: each attribute of a lease is a property, see below.
    __slots__ = ()

    _noun = "lease"
    _use = "lease ="

    def _enter(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self._forgotten('async with')} as {self._noun}'")

    __enter__ = __exit__ = __aenter__ = __aexit__ = _enter


class AwaitedTerm(AwaitedLease):
    __slots__ = ()

    _noun = "term"
    _use = "term ="


for _word in dir(AsyncLease):
    if not _word.startswith("_"):
        setattr(AwaitedLease, _word, _hint(_word))
for _word in ("proclaim", "resign", "since"):
    setattr(AwaitedTerm, _word, _hint(_word))
for _word in ("cr_await", "cr_code", "cr_frame", "cr_origin", "cr_running"):  # debuggers and reprs of tasks read them
    setattr(Awaited, _word, _passed_on(_word))


def _returning(
    kind: type[Awaited], function: Callable[P, Coroutine[Any, Any, R]]
) -> Callable[P, Coroutine[Any, Any, R]]:
    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        awaited = _new(kind)
        awaited._coroutine = function(*args, **kwargs)  # pyright: ignore[reportPrivateUsage]
        return awaited

    _mark(called)
    return cast(Callable[P, Coroutine[Any, Any, R]], called)


def gives_a_lease(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates a coroutine function whose result is a lease or None."""
    return _returning(AwaitedLease, function)


def gives_a_term(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates a coroutine function whose result is a leader's term."""
    return _returning(AwaitedTerm, function)


def gives_an_answer(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates a coroutine function whose result may be false: a coroutine itself would always be true."""
    return _returning(Awaited, function)
