"""history.install: what programs do with the library, on the page of the service."""

from __future__ import annotations

import asyncio

import pytest

from holdtight import AsyncLocks, Locks, LockTimeout, NotSupported, history
from holdtight.server.minutes import summary
from tests.service.calling import caller
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
both = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")


@both
def test_what_the_library_does_is_shown_and_counted(place: Place) -> None:
    async def use_asyncio() -> None:
        async with AsyncLocks(place.url) as locks:
            history.install(locks)
            async with locks.lock("order:2"):
                pass

    with Locks(place.url) as locks:
        history.install(locks)
        history.install(locks)
        with locks.lock("order:1"), Locks(place.url) as other:
            history.install(other)
            with pytest.raises(LockTimeout):
                other.lock("order:1", wait=0.05).acquire()
        asyncio.run(use_asyncio())
        history.flush()

    async def look() -> None:
        async with caller(place.url) as one:
            shown = await one.get("lock", name="order:1")
            # Two clients know the server's time to a round trip: which came first is not certain.
            assert sorted(each["kind"] for each in shown["history"]) == ["granted", "released", "timed_out"]
            assert (shown["wait"]["n"], shown["hold"]["n"]) == (2, 2)  # those of order:2, too
            assert [each["kind"] for each in (await one.get("lock", name="order:2"))["history"]] == [
                "released",
                "granted",
            ]

    asyncio.run(look())


def test_it_is_refused_where_it_cannot_be() -> None:
    with Locks(["redis://h", "redis://i", "redis://j"]) as locks, pytest.raises(NotSupported, match="one server"):
        history.install(locks)
    with pytest.raises(TypeError, match="Locks"):
        history.install(object())  # type: ignore[arg-type]


def test_percentiles_lie_within_the_bucket_in_proportion() -> None:
    buckets = [0] * 26
    buckets[3], buckets[4] = 8, 2
    found = summary(buckets)
    assert found["n"] == 10
    assert found["p50"] == pytest.approx(0.004 + 0.004 * 5 / 8)
    assert found["p95"] == pytest.approx(0.008 + 0.008 * 1.5 / 2)
    assert summary(None)["p50"] is None
