"""`synchronized`: every call of a function in a block of the lock that its arguments name; `current_lease`."""

from typing import Any

import pytest

import holdtight
from holdtight import DeadlockDetected, LockTimeout, Profile
from holdtight.events import Acquired
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])
"""Jobs take exclusive locks."""


async def test_each_call_holds_the_lock_of_its_arguments(world: World) -> None:
    held = list[str]()

    @world.client.synchronized("order:{order_id}", wait=0)
    async def ship(order_id: int, note: str = "") -> str:
        """Ships."""
        held.extend(holder.label or "" for holder in (await world.client.inspect(f"order:{order_id}")).holders)
        async with world.client.lock(f"order:{order_id + 1}", wait=0):
            pass
        with pytest.raises(LockTimeout):
            async with world.locks().lock(f"order:{order_id}", wait=0):
                pass
        return f"shipped {order_id}{note}"

    assert await ship(7, note="!") == "shipped 7!"
    assert held == [""]
    assert ship.name(order_id=8) == "order:8"
    assert (vars(ship)["__wrapped__"].__name__, ship.__doc__) == ("ship", "Ships.")
    assert not (await world.client.inspect("order:7")).locked


async def test_options_are_those_of_a_lock_and_profiles_apply_by_the_finished_name(world: World) -> None:
    client = world.locks(profiles={"slow:*": Profile(label="of the profile")})

    async def body(kind: str) -> Any:
        return (await client.inspect(f"{kind}:job")).holders[0].label

    assert await client.synchronized("{kind}:job")(body)("slow") == "of the profile"
    assert await client.synchronized("{kind}:job", label="mine")(body)("slow") == "mine"
    with pytest.raises(ValueError, match="ttl"):
        client.synchronized("{kind}:job", ttl=-1)


async def test_events_and_metrics_count_a_job_under_its_template(world: World) -> None:
    client = world.locks(profiles={"*:pattern": Profile()})
    heard = list[Any]()
    client.events.subscribe(heard.append)

    async def body(word: str) -> None: ...

    for name in ("job:{word}", "{word}:pattern", lambda word: f"{word}:pattern", lambda word: word):
        await client.synchronized(name)(body)("x")
    told = [(event.name, event.template) for event in heard if isinstance(event, Acquired)]
    assert told == [("job:x", "job:{word}"), ("x:pattern", "{word}:pattern"), ("x:pattern", "*:pattern"), ("x", None)]


async def test_within_itself_it_is_a_deadlock_or_enters_again(world: World) -> None:
    fences = list[int]()

    @world.client.synchronized("tree:{root}", reentrant=True)
    async def walk(root: str, depth: int) -> None:
        fences.append(holdtight.current_lease().fence)
        if depth:
            await walk(root, depth - 1)

    await walk("a", 2)
    assert len(fences) == 3
    assert len(set(fences)) == 1

    @world.client.synchronized("tree:{root}")
    async def fall(root: str, depth: int) -> None:
        await fall(root, depth - 1)

    with pytest.raises(DeadlockDetected):
        await fall("a", 1)
    assert not (await world.client.inspect("tree:a")).locked


async def test_current_lease_is_that_of_the_innermost_block_of_this_very_thread_or_task(world: World) -> None:
    async def elsewhere() -> None:
        with pytest.raises(LookupError, match="no block"):
            holdtight.current_lease()

    @world.client.synchronized("outer")
    async def outer() -> None:
        mine = holdtight.current_lease()
        assert mine.name == "outer"
        mine.check()
        async with world.client.lock("inner") as lease:
            assert holdtight.current_lease().owner == lease.owner
            assert holdtight.current_lease("outer").owner == mine.owner
            with pytest.raises(LookupError, match="'other'"):
                holdtight.current_lease("other")
            await world.apart(elsewhere())
        assert holdtight.current_lease().owner == mine.owner

    await outer()
    await elsewhere()


async def test_a_function_that_would_run_after_the_release_is_refused(world: World) -> None:
    if not world.blocking:

        def plain() -> None: ...

        async def many() -> Any:
            yield 1

        for wrong in (plain, many):
            with pytest.raises(TypeError):
                world.client.synchronized("x")(wrong)  # type: ignore[arg-type]
    else:
        with holdtight.Locks(world.server.url) as locks:

            async def coloured() -> None: ...

            def numbers() -> Any:
                yield 1

            for each in (coloured, numbers):
                with pytest.raises(TypeError):
                    locks.synchronized("x")(each)
            with pytest.raises(TypeError, match="generator"):
                locks.synchronized("x")(lambda: numbers())()
            assert not locks.inspect("x").locked


async def test_methods_of_all_kinds_bind(world: World) -> None:
    if world.blocking:
        return
    client = world.client

    class Shop:
        id = 3

        @client.synchronized("shop:{self.id}/{item}")
        async def sell(self, item: str) -> str:
            return holdtight.current_lease().name

        @classmethod
        @client.synchronized("all:{cls.id}")
        async def close(cls) -> str:
            return holdtight.current_lease().name

        @client.synchronized("all:{cls.id}")
        @classmethod
        async def open(cls) -> str:
            return holdtight.current_lease().name

        @client.synchronized("s:{number}")
        @staticmethod
        async def static(number: int) -> str:
            return holdtight.current_lease().name

    shop = Shop()
    assert await shop.sell("hat") == "shop:3/hat"
    static: Any = shop.static  # mypy cannot tell a static method that it reaches through an instance from a method
    assert (await Shop.close(), await shop.open(), await static(4)) == ("all:3", "all:3", "s:4")
    assert shop.sell.name(shop, "hat") == "shop:3/hat"
