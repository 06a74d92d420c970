"""Starlette and FastAPI: one client for the application, a lock as a dependency, answers for errors of locks."""

import inspect
import math
import string
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from holdtight import AsyncLocks, LeaseLost, LockError, LockTimeout, QueueFull, StaleFence, Unavailable
from holdtight.aio.lease import AsyncLease
from holdtight.recipes.names import Naming

if TYPE_CHECKING:
    from holdtight import Target

__all__ = ["install", "lifespan", "locked"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(target: "Target | None" = None, *, inner: Lifespan | None = None, **options: Any) -> Lifespan:
    """A lifespan that opens an `AsyncLocks` as `app.state.locks` and closes it at the end. The arguments are those of
    `AsyncLocks`; `inner` is a lifespan of your own, which runs inside.

    Example:
        app = FastAPI(lifespan=lifespan("redis://localhost:6379/0"))
    """

    @asynccontextmanager
    async def run(app: Any) -> AsyncGenerator[Any, None]:
        async with AsyncLocks(target, **options) as locks:
            app.state.locks = locks
            if inner is None:
                yield
            else:
                async with inner(app) as state:
                    yield state

    return run


def locked(name: str, **options: Any) -> Callable[[HTTPConnection], AsyncIterator[AsyncLease]]:
    """A dependency of FastAPI that holds a lock while the endpoint runs, and gives its lease. Fields of `name` are
    parameters of the path, else of the query; the options are those of `lock`.

    Write `Depends(locked(...), scope="function")`: without the scope, FastAPI keeps the lock until the response has
    been sent. Raises ValueError if `name` is not a template, or for a wrong option.

    Example:
        @app.post("/orders/{order_id}/pay")
        async def pay(order_id: int, lease: Annotated[AsyncLease, Depends(locked("order:{order_id}", wait=2))]): ...
    """
    naming = Naming(name, _with_fields(name))
    AsyncLocks("memory://").lock("x", **options)  # raises at once for a wrong option

    async def holding(connection: HTTPConnection) -> AsyncIterator[AsyncLease]:
        locks: AsyncLocks | None = getattr(connection.app.state, "locks", None)
        if locks is None:
            raise RuntimeError(
                "app.state.locks is missing: use holdtight.contrib.starlette.lifespan for the application"
            )
        values = {**connection.query_params, **connection.path_params}
        async with locks.lock(naming.of((), values), **options) as lease:
            yield lease

    return holding


def _with_fields(template: str) -> Callable[..., None]:
    """A function whose parameters are the fields of the template: a request may have parameters of any name."""

    def fields() -> None: ...

    try:
        found = [field for _, field, _, _ in string.Formatter().parse(template) if field]
    except ValueError:
        found = []  # Naming says what is wrong
    roots = dict.fromkeys(field.split(".")[0].split("[")[0] for field in found)
    fields.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(root, inspect.Parameter.KEYWORD_ONLY) for root in roots if root.isidentifier()]
    )
    return fields


def install(app: Starlette) -> None:
    """Answers errors of locks: LockTimeout with 423 and Retry-After, QueueFull with 429, Unavailable with 503,
    StaleFence and LeaseLost with 409. The body has the error's code, but not the holder."""
    for kind in _ANSWERS:
        app.add_exception_handler(kind, _answer)


_ANSWERS: dict[type[LockError], tuple[int, str]] = {
    LockTimeout: (423, "another request works on this"),
    QueueFull: (429, "too many requests wait for this"),
    Unavailable: (503, "try again later"),
    StaleFence: (409, "another request has worked on this meanwhile"),
    LeaseLost: (409, "another request may have worked on this meanwhile"),
}


async def _answer(request: Request, error: Exception) -> Response:
    assert isinstance(error, LockError)
    status, detail = next(answer for kind, answer in _ANSWERS.items() if isinstance(error, kind))
    headers = {"Retry-After": str(_retry_after(error))} if status in (423, 429, 503) else None
    return JSONResponse({"detail": detail, "code": error.code}, status, headers)


def _retry_after(error: LockError) -> int:
    """Seconds until the holder's lease ends unless it is renewed, at most ten."""
    left = error.holder.expires_in if error.holder is not None else None
    return min(10, max(1, math.ceil(left))) if left else 1
