"""Nothing is missing: constructors, methods and attributes are those of redis-py 8."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock
import valkey
import valkey.asyncio
from redis.exceptions import LockError

import holdtight
from holdtight import NotSupported
from holdtight.compat.redis_py import AsyncLock, Lock

PAIRS = [(redis.lock.Lock, Lock), (redis.asyncio.lock.Lock, AsyncLock)]
# Parts of redis-py's own way of working. A subclass that overrides one is told that this has no effect.
INNER = {"register_scripts"} | {name for name in dir(redis.lock.Lock) if name.lower().startswith("lua_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_every_public_method_is_there_with_the_same_parameters(theirs: type, ours: type) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")} - INNER
    assert len(names) >= 9
    for name in names | {"__init__"}:
        assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name)), name
    for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
        assert hasattr(ours, name) is hasattr(theirs, name), name


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_every_attribute_of_an_instance_is_there(theirs: Any, ours: Any) -> None:
    client: Any = redis.Redis() if ours is Lock else redis.asyncio.Redis()
    options = {"timeout": 5, "sleep": 0.2, "blocking": False, "blocking_timeout": 3, "thread_local": False}
    one, other = theirs(client, "a", **options), ours(client, "a", **options)
    for name, value in vars(one).items():
        if name != "local":
            assert getattr(other, name) == value, name
    assert one.local.token is None
    assert other.local.token is None


def test_the_client_makes_ours_with_lock_class() -> None:
    made = redis.Redis().lock("a", timeout=5, sleep=0.3, blocking_timeout=2, lock_class=Lock)
    assert type(made) is Lock
    assert (made.name, made.timeout, made.sleep, made.blocking_timeout) == ("a", 5, 0.3, 2)
    assert type(valkey.Valkey().lock("a", lock_class=Lock)) is Lock
    clients: list[Any] = [redis.asyncio.Redis(), valkey.asyncio.Valkey()]  # their annotations want their own classes
    for client in clients:
        assert type(client.lock("a", lock_class=AsyncLock)) is AsyncLock


def test_methods_may_be_overridden_but_not_those_that_would_be_without_effect() -> None:
    class Counting(Lock):
        count = 0

        def acquire(self, *args: Any, **options: Any) -> bool:
            self.count += 1
            return super().acquire(*args, **options)

    assert issubclass(Counting, Lock)
    for name in ("do_acquire", "do_release", "lua_release", "LUA_RELEASE_SCRIPT", "register_scripts"):
        with pytest.raises(TypeError, match=f"Mine.{name}: this lock does not call it"):
            type("Mine", (Lock,), {name: None})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"timeout": 0}, ValueError, "timeout=0: give seconds"),
        ({"timeout": -1}, ValueError, "timeout=-1: give seconds"),
        ({"timeout": 0.0004}, ValueError, "timeout=0.0004: give seconds"),
        ({"timeout": float("nan")}, ValueError, "timeout=nan"),
        ({"timeout": float("inf")}, ValueError, "timeout=inf"),
        ({"timeout": "5"}, TypeError, "timeout must be a number of seconds or None, not str"),
    ],
)
def test_a_timeout_that_cannot_be_meant_is_refused_before_anything_is_sent(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Lock(redis.Redis(), "a", **options)


def test_a_pause_that_cannot_be_meant_is_refused() -> None:
    for sleep in (-1, float("nan")):
        with pytest.raises(ValueError, match="sleep="):
            Lock(redis.Redis(), "a", timeout=5).acquire(sleep=sleep)
        with pytest.raises(ValueError, match="sleep="):
            Lock(redis.Redis(), "a", timeout=5, sleep=sleep)


def test_a_client_of_the_other_colour_is_refused() -> None:
    with pytest.raises(TypeError, match=r"asyncio client: use holdtight.compat.redis_py.AsyncLock"):
        Lock(redis.asyncio.Redis(), "a")
    with pytest.raises(TypeError, match=r"blocking client: use holdtight.compat.redis_py.Lock"):
        AsyncLock(redis.Redis(), "a")


@pytest.mark.parametrize("client", ["redis://localhost", None, object(), 5, []])
def test_what_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match="expected a client object of redis-py or valkey-py"):
        Lock(client, "a")


def test_a_cluster_is_refused_and_a_client_of_sentinel_is_not() -> None:
    sentinel: Any = redis.Sentinel
    Lock(sentinel([("localhost", 26379)]).master_for("mymaster"), "a", timeout=5)
    with pytest.raises(ValueError, match="replicas"):
        Lock(sentinel([("localhost", 26379)]).slave_for("mymaster"), "a", timeout=5)

    async def on_a_cluster() -> None:
        with pytest.raises(NotSupported, match="clients of a cluster"):
            AsyncLock(redis.asyncio.RedisCluster(host="localhost", port=7000), "a")

    asyncio.run(on_a_cluster())


def test_locks_of_equal_settings_share_their_connections() -> None:
    one, two, other = redis.Redis(), redis.Redis(), redis.Redis(db=3)
    accesses = [Lock(client, "a", timeout=5)._access for client in (one, one, two, other)]
    assert accesses[0] is accesses[1] is accesses[2]
    assert accesses[3] is not accesses[0]


def test_errors_are_those_of_the_clients_library() -> None:
    for client, errors in ((redis.Redis(), redis.exceptions), (valkey.Valkey(), valkey.exceptions)):
        lock = Lock(client, "a", timeout=5)
        with pytest.raises(errors.LockError, match="not held in this thread") as raised:
            lock.release()
        assert type(raised.value) is errors.LockError
        assert raised.value.lock_name == "a"
    assert issubclass(LockError, ValueError)


def test_neither_redis_py_nor_asyncio_is_loaded_by_the_import() -> None:
    script = """
import sys, holdtight, holdtight.compat
assert "redis" not in sys.modules
import holdtight.compat.redis_py
print([name for name in ("redis", "valkey", "asyncio", "ssl") if name in sys.modules])
"""
    env = {**os.environ, "PYTHONPATH": str(Path(holdtight.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.strip() == "[]", done.stderr
