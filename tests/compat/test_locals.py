"""Which threads and tasks find a lock that was taken. Without a server."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from holdtight.compat.local import Held, PerThread, Shared
from holdtight.compat.tasks import PerTask


def take(local: Shared, token: bytes = b"mine") -> Held:
    held = Held(token, None)
    local.keep(held, local.asker())
    return held


async def take_soon(local: PerTask, token: bytes = b"mine") -> Held:
    await asyncio.sleep(0)
    return take(local, token)


async def look_soon(local: PerTask) -> bytes | None:
    await asyncio.sleep(0)
    return local.token


def elsewhere(work: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(10)
    return found[0]


def test_each_thread_finds_what_it_took_itself() -> None:
    local = PerThread()
    take(local, b"one")
    assert elsewhere(lambda: local.token) is None
    assert elsewhere(lambda: (take(local, b"two"), local.token)[1]) == b"two"
    assert local.token == b"one"


def test_a_thread_does_not_find_what_a_dead_one_of_its_number_took() -> None:
    local = PerThread()
    for _ in range(50):
        assert elsewhere(lambda: (local.token, take(local))[0]) is None


def test_a_shared_one_is_found_by_all() -> None:
    local = Shared()
    elsewhere(lambda: take(local, b"one"))
    assert local.token == b"one"
    local.token = b"two"
    assert elsewhere(lambda: local.token) == b"two"


@pytest.mark.parametrize("make", [Shared, PerThread, PerTask])
def test_it_can_be_set_and_unset_by_hand(make: type[Shared]) -> None:
    local = make()
    assert local.token is None
    local.token = None
    local.token = "text"
    assert local.token == b"text"
    local.token = b"other"
    assert local.token == b"other"
    local.token = None
    assert local.token is None


@pytest.mark.parametrize("make", [Shared, PerThread, PerTask])
def test_what_was_dropped_is_not_found_and_what_came_later_stays(make: type[Shared]) -> None:
    local = make()
    first = take(local, b"one")
    second = take(local, b"two")
    local.drop(first)
    assert local.token == b"two"
    local.drop(second)
    local.drop(second)
    assert local.token is None


def run(scene: Callable[[PerTask], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene(PerTask()))


def test_a_task_finds_what_it_took_itself_and_no_sibling_does() -> None:
    async def scene(local: PerTask) -> None:
        taken, end = asyncio.Event(), asyncio.Event()

        async def hold(token: bytes) -> bytes | None:
            take(local, token)
            taken.set()
            await end.wait()
            return local.token

        one, two = asyncio.create_task(hold(b"one")), asyncio.create_task(hold(b"two"))
        await taken.wait()
        await asyncio.sleep(0)
        assert local.token is None
        end.set()
        assert [await one, await two] == [b"one", b"two"]

    run(scene)


@pytest.mark.parametrize("wrapped", [asyncio.shield, lambda work: asyncio.wait_for(work, 5), asyncio.create_task])
def test_a_task_that_the_holder_started_finds_what_it_holds(wrapped: Callable[[Any], Awaitable[Any]]) -> None:
    async def scene(local: PerTask) -> None:
        take(local)
        assert await wrapped(look_soon(local)) == b"mine"
        assert await wrapped(wrapped(look_soon(local)) if wrapped is asyncio.shield else look_soon(local)) == b"mine"

    run(scene)


@pytest.mark.parametrize("wrapped", [asyncio.shield, lambda work: asyncio.wait_for(work, 5), asyncio.create_task])
def test_what_a_task_that_has_ended_took_is_found_by_its_starter(wrapped: Callable[[Any], Awaitable[Any]]) -> None:
    async def scene(local: PerTask) -> None:
        await wrapped(take_soon(local))
        gc.collect()
        assert local.token == b"mine"
        assert await look_soon(local) == b"mine"

    run(scene)


def test_of_several_that_ended_tasks_left_none_is_guessed_at() -> None:
    async def scene(local: PerTask) -> None:
        for token in (b"one", b"two", b"three", b"four"):
            await asyncio.create_task(take_soon(local, token))
        assert local.token is None
        assert len(local._taken) <= 4
        assert await look_soon(local) is None
        take(local, b"own")
        assert await look_soon(local) == b"own"

    run(scene)


def test_a_child_that_takes_for_itself_finds_its_own_and_its_parent_the_parents() -> None:
    async def scene(local: PerTask) -> None:
        take(local, b"parent")

        async def child() -> bytes | None:
            take(local, b"child")
            await asyncio.sleep(0)
            return local.token

        assert await asyncio.create_task(child()) == b"child"
        assert local.token == b"parent"

    run(scene)


def test_what_is_set_outside_of_any_task_is_found_in_all() -> None:
    local = PerTask()
    local.token = b"mine"
    assert asyncio.run(look_soon(local)) == b"mine"


def test_nothing_piles_up_in_tasks_that_start_each_other() -> None:
    async def scene(local: PerTask) -> None:
        from holdtight.compat.tasks import _comes_from

        longest = 0

        async def link(left: int) -> None:
            nonlocal longest
            local.drop(take(local))
            longest = max(longest, len(_comes_from.get()))
            if left:
                following.append(asyncio.create_task(link(left - 1)))

        following = [asyncio.create_task(link(50))]
        while following:
            await following.pop()
        assert longest <= 3
        assert local._taken == []

    run(scene)
