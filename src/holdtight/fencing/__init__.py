"""Guards that keep a holder whose lease was lost from harming a database or a Redis. See docs/fencing.md.

A guard stores the highest fence that it has seen for each name. A holder claims its name before it reads. The claim
raises the stored fence to the holder's own, and fails if a higher one is stored.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdtight.fencing.aio import AsyncSqlGuard
    from holdtight.fencing.redis import AsyncRedisGuard, RedisGuard
    from holdtight.fencing.sql import SqlGuard

__all__ = ["AsyncRedisGuard", "AsyncSqlGuard", "RedisGuard", "SqlGuard"]

_LAZY = {"AsyncRedisGuard": "redis", "AsyncSqlGuard": "aio", "RedisGuard": "redis", "SqlGuard": "sql"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'holdtight.fencing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"holdtight.fencing.{_LAZY[name]}"), name)
