"""The lock service: locks for programs in any language over HTTP, and a page for people. Needs the extra `server`.

`holdtight serve` runs it; `app(locks, authorize=...)` gives it as an ASGI application to be mounted in another program.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.refusals import missing_extra
from holdtight.server.principal import Principal

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdtight.aio.locks import AsyncLocks

__all__ = ["Principal", "app"]


def app(
    locks: "AsyncLocks", *, authorize: "Callable[[Request], Principal | Awaitable[Principal | None] | None]"
) -> Any:
    """An ASGI application that serves these locks: the API, and the page without its login.

    `authorize` gets the request and returns a `Principal`, or None for a caller that is not known; it may be a
    coroutine function. The application starts with its first request.

    Raises NotSupported for a client of a cluster or a quorum, TypeError for a wrong argument.
    """
    try:
        from holdtight.server.gate import Mounted
        from holdtight.server.http import App
        from holdtight.server.service import Service
    except ModuleNotFoundError as error:
        raise missing_extra("server", error) from error
    return App(Service(locks), Mounted(authorize))
