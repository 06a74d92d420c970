"""The types of functions under the jobs of `Locks`, for type checkers. Never loaded.

At run time a decorated function is a plain function with helpers, which take the arguments of a call, `self` too: so
`order.ship.name(order)`. Reached through a class, such as `Order.ship`, it has the type Any: it may be a method or a
class method, and mypy does not tell which. For the same reason mypy takes a static method that is reached through an
instance for a method.
"""

# pyright: reportOverlappingOverload=false

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from holdtight.base.jobs import Peek, Run, Skipped
from holdtight.sync.hold import Unknown, UseAsyncLocks

__all__ = ["Flight", "FlightJob", "Once", "OnceJob", "Synchronized", "SynchronizedJob"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class BoundSynchronized(Protocol[S_contra, P, R_co]):
    """A method under `synchronized`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...


class Synchronized(Protocol[P, R_co]):
    """A function under `synchronized`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(self: Synchronized[Concatenate[S, Q], R], obj: S, cls: Any = None, /) -> BoundSynchronized[S, Q, R]: ...
    @overload
    def __get__(
        self: Synchronized[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /
    ) -> BoundSynchronized[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...


class SynchronizedJob(Protocol):
    """The decorator that `synchronized` gives."""

    # Any fits every return type, the first one too: then nothing is known about the colour.
    @overload
    def __call__(self, function: Callable[P, Unknown], /) -> Synchronized[P, Any]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, Any]], /
    ) -> UseAsyncLocks: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Synchronized[P, R]: ...


class BoundOnce(Protocol[S_contra, P, R_co]):
    """A method under `once`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co | Skipped: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...
    def last(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Run | None: ...
    def forget(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> None: ...


class Once(Protocol[P, R_co]):
    """A function under `once`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co | Skipped: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(self: Once[Concatenate[S, Q], R], obj: S, cls: Any = None, /) -> BoundOnce[S, Q, R]: ...
    @overload
    def __get__(self: Once[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /) -> BoundOnce[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...

    def last(self, *args: P.args, **kwargs: P.kwargs) -> Run | None:
        """The last run, from the record; None if there is none."""
        ...

    def forget(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Drops the record."""
        ...


class OnceJob(Protocol):
    """The decorator that `once` gives."""

    # Any fits every return type, the first one too: then nothing is known about the colour.
    @overload
    def __call__(self, function: Callable[P, Unknown], /) -> Once[P, Any]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, Any]], /
    ) -> UseAsyncLocks: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Once[P, R]: ...


class BoundFlight(Protocol[S_contra, P, R_co]):
    """A method under `single_flight`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...
    def invalidate(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    def expire(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    def refresh(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def peek(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Peek | None: ...


class Flight(Protocol[P, R_co]):
    """A function under `single_flight`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(self: Flight[Concatenate[S, Q], R], obj: S, cls: Any = None, /) -> BoundFlight[S, Q, R]: ...
    @overload
    def __get__(self: Flight[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /) -> BoundFlight[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...

    def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Drops the value: the next call computes it."""
        ...

    def expire(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Makes the value stale."""
        ...

    def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Computes the value now, and returns it."""
        ...

    def peek(self, *args: P.args, **kwargs: P.kwargs) -> Peek | None:
        """What is stored; None if nothing is. Computes nothing."""
        ...


class FlightJob(Protocol):
    """The decorator that `single_flight` gives."""

    # Any fits every return type, the first one too: then nothing is known about the colour.
    @overload
    def __call__(self, function: Callable[P, Unknown], /) -> Flight[P, Any]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, Any]], /
    ) -> UseAsyncLocks: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Flight[P, R]: ...
    @overload
    def get_or_create(self, fetch: Callable[[], Unknown]) -> Any: ...
    @overload
    def get_or_create(self, fetch: Callable[[], Coroutine[Any, Any, Any]]) -> UseAsyncLocks: ...
    @overload
    def get_or_create(self, fetch: Callable[[], R]) -> R:
        """The value of this name, which `fetch()` computes if it has to be."""
        ...
