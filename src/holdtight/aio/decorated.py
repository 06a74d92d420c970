"""The types of functions under the jobs of `AsyncLocks`, for type checkers. Never loaded.

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

__all__ = ["AsyncFlight", "AsyncFlightJob", "AsyncOnce", "AsyncOnceJob", "AsyncSynchronized", "AsyncSynchronizedJob"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class BoundAsyncSynchronized(Protocol[S_contra, P, R_co]):
    """A method under `synchronized`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...


class AsyncSynchronized(Protocol[P, R_co]):
    """An async function under `synchronized`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, Coroutine[Any, Any, R_co]]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(
        self: AsyncSynchronized[Concatenate[S, Q], R], obj: S, cls: Any = None, /
    ) -> BoundAsyncSynchronized[S, Q, R]: ...
    @overload
    def __get__(
        self: AsyncSynchronized[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /
    ) -> BoundAsyncSynchronized[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...


class AsyncSynchronizedJob(Protocol):
    """The decorator that `synchronized` gives."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncSynchronized[P, R]: ...


class BoundAsyncOnce(Protocol[S_contra, P, R_co]):
    """A method under `once`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co | Skipped]: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...
    def last(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Run | None]: ...
    def forget(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]: ...


class AsyncOnce(Protocol[P, R_co]):
    """An async function under `once`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, Coroutine[Any, Any, R_co]]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co | Skipped]: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(self: AsyncOnce[Concatenate[S, Q], R], obj: S, cls: Any = None, /) -> BoundAsyncOnce[S, Q, R]: ...
    @overload
    def __get__(
        self: AsyncOnce[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /
    ) -> BoundAsyncOnce[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...

    def last(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Run | None]:
        """The last run, from the record; None if there is none."""
        ...

    def forget(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]:
        """Drops the record."""
        ...


class AsyncOnceJob(Protocol):
    """The decorator that `once` gives."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncOnce[P, R]: ...


class BoundAsyncFlight(Protocol[S_contra, P, R_co]):
    """A method under `single_flight`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    def name(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> str: ...
    def invalidate(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]: ...
    def expire(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]: ...
    def refresh(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    def peek(self, of: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Peek | None]: ...


class AsyncFlight(Protocol[P, R_co]):
    """An async function under `single_flight`."""

    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, Coroutine[Any, Any, R_co]]:
        """The function itself, without the job."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    @overload
    def __get__(self, obj: None, cls: Any = None, /) -> Any: ...
    @overload
    def __get__(self: AsyncFlight[Concatenate[S, Q], R], obj: S, cls: Any = None, /) -> BoundAsyncFlight[S, Q, R]: ...
    @overload
    def __get__(
        self: AsyncFlight[Concatenate[type[S], Q], R], obj: S, cls: Any = None, /
    ) -> BoundAsyncFlight[type[S], Q, R]: ...
    @overload
    def __get__(self, obj: object, cls: Any = None, /) -> Self: ...
    def name(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The name of the lock that a call with these arguments takes."""
        ...

    def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]:
        """Drops the value: the next call computes it."""
        ...

    def expire(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, None]:
        """Makes the value stale."""
        ...

    def refresh(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Computes the value now, and returns it."""
        ...

    def peek(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Peek | None]:
        """What is stored; None if nothing is. Computes nothing."""
        ...


class AsyncFlightJob(Protocol):
    """The decorator that `single_flight` gives."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncFlight[P, R]: ...
    def get_or_create(self, fetch: Callable[[], Coroutine[Any, Any, R]]) -> Coroutine[Any, Any, R]:
        """The value of this name, which `fetch()` computes if it has to be."""
        ...
