"""A Ctrl-C that the program survives, wherever code of ours can catch it: the drop-in leaves no key behind.

The locks here have no timeout, as redis-py's have none by default: a key that is left behind stays for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

import pytest
import redis

from holdtight.compat.redis_py import Lock
from tests.support.interrupts import Moments, interrupted_at
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

ENOUGH = 5
"""The test ends after this many runs without a new moment: not every run takes the same path."""


def block(client: redis.Redis, name: str) -> None:
    with Lock(client, name):
        pass


def block_with_a_timeout(client: redis.Redis, name: str) -> None:
    with Lock(client, name, timeout=600):
        pass


def shared(client: redis.Redis, name: str) -> None:
    with Lock(client, name, thread_local=False):
        pass


def handle(client: redis.Redis, name: str) -> None:
    lock = Lock(client, name)
    if lock.acquire():
        lock.release()


def prolonged(client: redis.Redis, name: str) -> None:
    with Lock(client, name, timeout=600) as lock:
        lock.reacquire()
        lock.extend(600)
        lock.extend(900, replace_ttl=True)


def with_a_text(client: redis.Redis, name: str) -> None:
    lock = Lock(client, name, timeout=600)
    try:
        lock.acquire(token="the service")
    except BaseException:
        assert lock.local.token is None, "a caller that did not get it has no token"
        raise
    try:
        lock.release()
    except BaseException:
        if lock.local.token is not None:
            lock.release()  # the caller chose the text, so the caller must give it back
        raise


USES = [block, block_with_a_timeout, shared, handle, prolonged, with_a_text]
SPARED = frozenset(["__exit__", "release"])
"""At the call itself no code of ours runs yet that could catch it."""


@pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning"
)  # of a call that was interrupted while connecting
@pytest.mark.parametrize("one_of", [8, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_interrupted_anywhere_it_leaves_nothing_behind(
    private_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    use: Callable[[redis.Redis, str], None],
    one_of: int,
) -> None:
    monkeypatch.setattr("holdtight.sync.driver.UNDO_SECONDS", 0.1)  # each lost reply costs this wait
    client = redis.Redis(port=private_server.port)
    where: dict[str, str] = {}
    moments = Moments(one_of, use.__name__)
    quiet = 0
    while quiet < ENOUGH:
        name = f"n{len(where)}"
        use(client, name)  # so that the interrupt hits the usual path: connected
        place = interrupted_at(moments, partial(use, client, name), spared=SPARED)
        if place is None:
            quiet += 1
        else:
            where[name] = place
    assert len(where) > 50 / one_of

    def left() -> list[str]:
        return [name for name in private_server.keys("n*") if name in where]

    try:
        wait_for(lambda: not left(), within=20)
    except AssertionError:
        pytest.fail("still held:\n" + "\n".join(sorted({where[name] for name in left()})))
    finally:
        client.close()
        gc.collect()  # a socket that an interrupt left in a cycle must not be found by the next test
