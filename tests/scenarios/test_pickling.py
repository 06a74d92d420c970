"""Clients and locks are pickled as settings; a lease cannot be pickled."""

import copy
import pickle
from typing import Any

import pytest

from holdtight import LockTimeout
from tests.scenarios.colours import bare
from tests.scenarios.world import World

travels = pytest.mark.real_server("a client of the memory store refuses to travel, see the tests of it")


def again(what: Any) -> Any:
    return pickle.loads(pickle.dumps(what))


@travels
async def test_a_client_comes_back_as_the_one_of_its_settings(world: World) -> None:
    client = bare(world.locks(namespace="pickled", ttl=7, wait=1, label="me", max_waiters=5))
    assert again(client) is client
    assert again([client, client]) == [client, client]


@travels
async def test_clients_of_other_settings_stay_apart(world: World) -> None:
    one, two = bare(world.locks(namespace="pickled", ttl=7)), bare(world.locks(namespace="pickled", ttl=8))
    assert again(one) is one
    assert again(two) is two


@travels
async def test_where_there_is_none_yet_all_that_come_back_share_a_new_one(world: World) -> None:
    """As in another process: the client that was pickled is not there."""
    gone = world.locks(namespace="pickled", ttl=9)
    text, lock_text = pickle.dumps(bare(gone)), pickle.dumps(bare(world.lock(of=gone)))
    await gone.aclose()
    fresh = world.colour.dressed(pickle.loads(text))
    assert pickle.loads(text) is bare(fresh)
    assert pickle.loads(text) is not bare(gone)
    lock = world.colour.dressed(pickle.loads(lock_text))
    async with lock:
        with pytest.raises(LockTimeout, match="this very"):  # one client: it knows that we hold it
            await world.lock(of=fresh).acquire(wait=0)
    await fresh.aclose()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
@travels
async def test_a_lock_comes_back_with_all_that_was_asked_of_it(world: World) -> None:
    options: dict[str, Any] = {"ttl": 7, "wait": 0.1, "reentrant": True, "renew": False, "label": "me"}
    options["max_hold"] = 5
    lock = world.lock("name: {ü}", **options)
    copied = again(bare(lock))
    assert copied is not bare(lock)
    assert (copied.name, copied.options) == (bare(lock).name, bare(lock).options)
    async with lock as lease, world.colour.dressed(copied) as same:
        assert same.fence == lease.fence  # one client, so one identity
    plain = world.lock("plain")
    async with plain:
        with pytest.raises(LockTimeout):
            await world.apart(world.colour.dressed(again(bare(plain))).acquire(wait=0))


async def test_a_lease_cannot_be_pickled_or_copied(world: World) -> None:
    async with world.lock() as lease:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"detach\(\) and adopt\(\)"):
                way(bare(lease))


async def test_errors_travel_whole(world: World) -> None:
    async with world.lock():
        with pytest.raises(LockTimeout) as caught:
            await world.apart(world.lock().acquire(wait=0))
    error, copied = caught.value, again(caught.value)
    assert type(copied) is LockTimeout
    assert (str(copied), copied.name, copied.holder) == (str(error), error.name, error.holder)
    assert (copied.waited, copied.code) == (error.waited, error.code)
