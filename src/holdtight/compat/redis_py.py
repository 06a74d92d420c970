"""Drop-in replacements for redis-py's locks: the same arguments, methods, key, value and exceptions.

    from redis.lock import Lock            →  from holdtight.compat.redis_py import Lock
    from redis.asyncio.lock import Lock    →  from holdtight.compat.redis_py import AsyncLock as Lock

or, where the client makes the locks: `client.lock(…, lock_class=Lock)`. Old and new locks exclude each other, so that
services can migrate one at a time. docs/migrating.md has the details.
"""

from typing import TYPE_CHECKING, Any

from holdtight.compat.sync import Lock

if TYPE_CHECKING:
    from holdtight.compat.aio import AsyncLock

__all__ = ["AsyncLock", "Lock"]


def __getattr__(name: str) -> Any:
    """Loads asyncio only when AsyncLock is first used."""
    if name != "AsyncLock":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdtight.compat.aio import AsyncLock

    globals()[name] = AsyncLock
    return AsyncLock
