"""The guards of data in Redis or Valkey: the fence of each name is a key beside the data."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from holdtight.base import refusals
from holdtight.base.clock import seconds
from holdtight.base.names import check_namespace
from holdtight.errors import ScriptError, StaleFence
from holdtight.fencing.plans import Claims, claims_of
from holdtight.stores.redis.keys import main_key

if TYPE_CHECKING:
    from holdtight.aio.lease import AsyncLease
    from holdtight.config.options import Duration
    from holdtight.sync.lease import Lease

__all__ = ["AsyncRedisGuard", "RedisGuard"]

BATCH = 100
"""Keys that one run of the prune script checks."""

Command = Sequence[str | bytes | int | float]


def _lua(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "lua", f"{name}.lua"), encoding="utf-8") as file:
        return file.read()


class _BaseGuard:
    """What both colours share: the requests, as pairs of keys and arguments, and the meaning of the replies."""

    def __init__(self, client: Any, namespace: str = "ht") -> None:
        """`client` is a client of redis-py or valkey-py for the server that has the data."""
        if not hasattr(client, "register_script"):
            raise TypeError(f"client must be a client of redis-py or valkey-py, not {type(client).__name__}")
        check_namespace(namespace)
        self.client, self.namespace = client, namespace
        self._claim, self._write, self._prune = (
            client.register_script(_lua(name)) for name in ("claim", "write", "prune")
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(namespace={self.namespace!r})"

    def _keys(self, claims: Claims) -> list[bytes]:
        return [main_key(f"{self.namespace}:fence", name) for name, _ in claims]

    def _to_write(self, claims: Claims, commands: Sequence[Command]) -> tuple[list[bytes], list[Any]]:
        if not commands:
            raise ValueError('write takes one or more commands, such as ("SET", key, value)')
        keys: list[Any] = list(self._keys(claims))
        args: list[Any] = [len(claims), *(fence for _, fence in claims)]
        for command in commands:
            if isinstance(command, (str, bytes)) or len(command) < 2:
                raise ValueError(f'a command is its words with a key, such as ("SET", key, value), not {command!r}')
            keys.append(command[1])
            args += [len(command), *command]
        return keys, args

    def _pattern(self) -> str:
        return f"{self.namespace}:fence:{{*}}"  # check_namespace refuses wildcards

    @staticmethod
    def _claimed(claims: Claims, reply: Any) -> None:
        if reply != 0:
            name, fence = claims[int(reply[0]) - 1]
            raise StaleFence.below(name, fence, int(reply[1]))

    @staticmethod
    def _written(claims: Claims, reply: list[Any]) -> list[Any]:
        if reply[0] == 0:
            return reply[1:]
        name, fence = claims[int(reply[0]) - 1]
        seen = int(reply[1] or 0)
        if seen > fence:
            raise StaleFence.below(name, fence, seen)
        raise refusals.not_claimed(name)

    def _failed(self, claims: Claims, error: Exception) -> Exception:
        """A fence key that is not ours becomes a ScriptError; any other error stays."""
        said = str(error)
        if "FOREIGN" in said or "WRONGTYPE" in said:
            return ScriptError.foreign(claims[0][0], self._keys(claims)[0].decode(), said)
        return error


def _limit(older_than: object) -> int:
    return max(0, int((time.time() - seconds(older_than, "older_than")) * 1_000_000))


class RedisGuard(_BaseGuard):
    """Keeps the highest fence of each name in a key of a Redis or Valkey server, and writes there only if that fence is
    the lease's own. `client` is a client of redis-py or valkey-py for the server with the data. Read with the same
    client, after `claim`.

    Options:
        client: as above.
        namespace: the prefix of the guard's keys, `<namespace>:fence:{name}`. Default "ht".

    Example:
        >>> from holdtight.fencing import RedisGuard
        >>> guard = RedisGuard(client)
        >>> with locks.lock("sku:1") as lease:
        ...     guard.claim(lease)
        ...     left = int(client.get("stock:1"))
        ...     _ = guard.write(lease, ("SET", "stock:1", left - 1), ("RPUSH", "sold", "sku:1"))
        >>> client.get("stock:1"), client.llen("sold")
        (b'9', 1)
    """

    @overload
    def claim(self, lease: "Lease", /) -> None: ...
    @overload
    def claim(self, name: str, fence: int, /) -> None: ...
    def claim(self, lease: "Lease | str", fence: int | None = None, /) -> None:
        """Raises the stored fence to this one. Claim before you read. Takes a `lease`, or a name and its `fence`.

        Raises StaleFence if a higher one is stored, NotSupported for a reader's, a semaphore's or a degraded lease.

        Example:
            >>> guard.claim("sku:1", 7)
            >>> guard.claim("sku:1", 6)
            Traceback (most recent call last):
                ...
            holdtight.errors.StaleFence: ...
        """
        claims = claims_of(lease, fence)
        try:
            self._claimed(claims, self._claim(keys=self._keys(claims), args=[fence for _, fence in claims]))
        except Exception as error:
            raise self._failed(claims, error) from None

    def write(self, lease: "Lease", *commands: Command) -> list[Any]:
        """Runs the `commands` in one step if the stored fence is that of the `lease`, and returns their replies as the
        server gave them. The second word of each command is a key. A command that fails ends the step there: what was
        written before it stays.

        Raises StaleFence if a higher fence is stored, WrongTransaction if `claim` was not called.

        Example:
            >>> with locks.lock("sku:1") as lease:
            ...     guard.claim(lease)
            ...     guard.write(lease, ("DECR", "stock:1"), ("RPUSH", "sold", "sku:1"))
            [9, 1]
        """
        claims = claims_of(lease)
        keys, args = self._to_write(claims, commands)
        return self._written(claims, self._write(keys=keys, args=args))

    def seen(self, name: str) -> int | None:
        """The highest fence that has claimed this name, or None.

        Example:
            >>> guard.seen("sku:2") is None
            True
        """
        found = self.client.get(self._keys([(name, 0)])[0])
        return None if found is None else int(found)

    def prune(self, older_than: "Duration") -> int:
        """Removes the names whose last grant is `older_than` that, and returns how many: see `SqlGuard.prune`.

        Example:
            >>> guard.prune(older_than="720h")
            0
        """
        limit, removed = _limit(older_than), 0
        for key in self.client.scan_iter(match=self._pattern(), count=BATCH):
            removed += self._prune(keys=[key], args=[limit])
        return removed


class AsyncRedisGuard(_BaseGuard):
    """As `RedisGuard`, for asyncio: `client` is one of `redis.asyncio` or `valkey.asyncio`.

    Example:
        >>> from redis.asyncio import Redis
        >>> from holdtight.fencing import AsyncRedisGuard
        >>> async def sell():
        ...     async with AsyncLocks("memory://") as locks, Redis.from_url(url) as client:
        ...         guard = AsyncRedisGuard(client)
        ...         async with locks.lock("sku:1") as lease:
        ...             await guard.claim(lease)
        ...             left = int(await client.get("stock:1"))
        ...             await guard.write(lease, ("SET", "stock:1", left - 1))
        ...         return int(await client.get("stock:1"))
        >>> asyncio.run(sell())
        9
    """

    @overload
    async def claim(self, lease: "AsyncLease", /) -> None: ...
    @overload
    async def claim(self, name: str, fence: int, /) -> None: ...
    async def claim(self, lease: "AsyncLease | str", fence: int | None = None, /) -> None:
        """As `RedisGuard.claim`."""
        claims = claims_of(lease, fence)
        try:
            self._claimed(claims, await self._claim(keys=self._keys(claims), args=[fence for _, fence in claims]))
        except Exception as error:
            raise self._failed(claims, error) from None

    async def write(self, lease: "AsyncLease", *commands: Command) -> list[Any]:
        """As `RedisGuard.write`."""
        claims = claims_of(lease)
        keys, args = self._to_write(claims, commands)
        return self._written(claims, await self._write(keys=keys, args=args))

    async def seen(self, name: str) -> int | None:
        """As `RedisGuard.seen`."""
        found = await self.client.get(self._keys([(name, 0)])[0])
        return None if found is None else int(found)

    async def prune(self, older_than: "Duration") -> int:
        """As `RedisGuard.prune`."""
        limit, removed = _limit(older_than), 0
        async for key in self.client.scan_iter(match=self._pattern(), count=BATCH):
            removed += await self._prune(keys=[key], args=[limit])
        return removed
