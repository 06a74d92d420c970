"""The types of options, for type checkers and editors. Loaded when a program asks for `Duration` or `Target`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from holdtight.config import targets

__all__ = ["Credentials", "Duration", "LockOptions", "OnUnavailable", "SemaphoreOptions", "Target"]

if TYPE_CHECKING:
    from holdtight.base.clock import Duration
else:
    from datetime import timedelta

    Duration = int | float | str | timedelta
"""Seconds as a number, a timedelta, or a text such as "250ms", "5s", "2m", "1h"."""


class ServerClient(Protocol):
    """A `redis.Redis`, a `redis.asyncio.Redis`, or the valkey-py twin: its connection settings are read."""

    @property
    def connection_pool(self) -> Any: ...


class ClusterClient(Protocol):
    """A `RedisCluster`, or the valkey-py twin."""

    @property
    def nodes_manager(self) -> Any: ...


_OneTarget: TypeAlias = str | ServerClient | ClusterClient | targets.Target | targets.Address
Target: TypeAlias = _OneTarget | Sequence[_OneTarget] | None
"""A URL, a client object whose settings are read, or a list of either, which is a quorum. None takes $HOLDTIGHT_URL,
then $REDIS_URL."""

_Login: TypeAlias = str | tuple[str | None, str]
Credentials: TypeAlias = _Login | Callable[[], _Login | Awaitable[_Login]]
"""A password, (user, password), or a callable that gives either at every connect."""

OnUnavailable: TypeAlias = Literal["raise", "local", "open"]


class SemaphoreOptions(TypedDict, total=False):
    """The options of a semaphore, as of every kind of lock. Options that are not given come from the name's profile,
    then from the client."""

    ttl: Duration
    wait: Duration | None
    renew: bool
    max_hold: Duration | None
    label: str | None


class LockOptions(SemaphoreOptions, total=False):
    """The options of a lock that its holder can enter again."""

    reentrant: bool
