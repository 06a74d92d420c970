"""A held lock changes its holder: between threads and tasks, and by detach and adopt."""

import base64
import json
from typing import Any

import pytest

from holdtight import AsyncLease, LeaseLost, LossReason, NotOwner, NotSupported
from tests.scenarios.world import World


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_detached_lock_is_adopted_by_another_client(world: World) -> None:
    lock = world.lock("baton", ttl=20)
    lease = await lock.acquire()
    text = await lease.detach()
    assert isinstance(text, str)
    assert await lock.try_acquire() is None  # it is held all the time
    adopted = await world.locks(label="second runner").adopt(text)
    assert adopted.name == "baton"
    assert adopted.fence > lease.fence
    assert adopted.owner != lease.owner
    holder = (await lock.inspect()).holders[0]
    assert (holder.owner, holder.label, holder.fence) == (adopted.owner, "second runner", adopted.fence)
    assert await lock.try_acquire() is None
    adopted.check()
    await adopted.release()
    assert not await lock.locked()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_detached_lease_is_at_an_end(world: World) -> None:
    lease = await world.lock(ttl=20).acquire()
    text = await lease.detach()
    assert lease.remaining() == 0
    assert not lease.lost
    with pytest.raises(NotOwner):
        lease.check()
    with pytest.raises(NotOwner):
        await lease.renew()
    await lease.release()  # nothing to release
    adopted = await world.client.adopt(text)
    await lease.release()
    assert await world.lock().locked()
    await adopted.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_what_was_detached_inside_a_block_is_not_released_at_its_end(world: World) -> None:
    async with world.lock(ttl=20) as lease:
        text = await lease.detach()
    assert await world.lock().locked()
    await (await world.client.adopt(text)).release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_the_second_adopter_comes_too_late(world: World) -> None:
    text = await (await world.lock(ttl=20).acquire()).detach()
    first = await world.client.adopt(text)
    with pytest.raises(LeaseLost) as caught:
        await world.locks().adopt(text)
    assert caught.value.reason is LossReason.TAKEN
    first.check()
    await first.renew()
    await first.release()
    with pytest.raises(LeaseLost):
        await world.client.adopt(text)


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_the_ttl_of_detach_is_the_time_for_adopting(world: World) -> None:
    lock = world.lock(ttl=20)
    text = await (await lock.acquire()).detach(0.05)
    async with world.lock(wait=10):  # nothing renews it: it is free within that time
        pass
    with pytest.raises(LeaseLost) as caught:
        await world.client.adopt(text)
    assert caught.value.reason is LossReason.EXPIRED


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_an_adopted_lock_is_renewed_again(world: World) -> None:
    text = await (await world.lock(ttl=20).acquire()).detach(5)
    lease = await world.client.adopt(text, ttl=1.5)
    assert lease.ttl == 1.5
    await world.renewed(lease)
    await lease.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_waiters_stay_in_line_while_the_lock_is_handed_on(world: World) -> None:
    lock = world.lock(ttl=20)
    lease = await lock.acquire()
    (waiter,) = await world.line_up(lock, lock.acquire())
    adopted = await world.client.adopt(await lease.detach())
    assert not waiter.done
    await adopted.release()
    served = await waiter.result()
    assert served.fence > adopted.fence > lease.fence
    await served.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_grant_with_two_handles_cannot_be_detached(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with lock as outer:
        async with lock as inner:
            for lease in (outer, inner):
                with pytest.raises(NotSupported, match="entered 2 times") as caught:
                    await lease.detach()
                assert caught.value.code == "NOT_SUPPORTED"
        outer.check()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_what_is_lost_cannot_be_detached(world: World) -> None:
    lease = await world.lock(ttl=0.05, renew=False).acquire()
    await lease.wait_lost(10)
    with pytest.raises(LeaseLost):
        await lease.detach()


def forged(*parts: Any) -> str:
    return "ht1." + base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


GARBAGE = {
    "empty": "",
    "words": "please let me in",
    "mark only": "ht1.",
    "no base64": "ht1.!!!!",
    "no json": "ht1.aGVsbG8",
    "cut": forged("thing", "A" * 32)[:-5],
    "not ascii": "ht1.äöü",
    "one part": forged("thing"),
    "short owner": forged("thing", "AAAA"),
    "bad name": forged("a\nb", "A" * 32),
    "no text": forged(1, 2),
    "a number": "ht1.MQ",
}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_not_adopted(world: World, text: str) -> None:
    sent = world.tap()
    with pytest.raises(ValueError, match="text is not what detach"):
        await world.client.adopt(text)
    assert sent() == 0


async def test_only_text_is_adopted(world: World) -> None:
    with pytest.raises(TypeError, match="bytes"):
        await world.client.adopt(b"ht1.")  # type: ignore[arg-type]


async def test_a_lease_is_released_by_another_thread_or_task(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()
    await world.apart(lease.release())
    assert not await lock.locked()
    assert not lease.lost
    await lease.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_reentrant_lease_is_released_by_another_thread_or_task(world: World) -> None:
    lock = world.lock(reentrant=True)
    lease = await lock.acquire()
    await world.apart(lease.release())
    assert not await lock.locked()
    again = await lock.acquire(wait=0)
    assert again.fence > lease.fence
    await again.release()


async def test_a_hold_is_entered_here_and_left_there(world: World) -> None:
    lock = world.lock()
    hold = lock.hold()

    async def enter() -> AsyncLease:
        return await hold.__aenter__()

    async def leave() -> None:
        await hold.__aexit__(None, None, None)

    lease = await world.apart(enter())
    assert (await lock.inspect()).holders[0].owner == lease.owner
    await world.apart(leave())
    assert not await lock.locked()


async def test_a_block_left_elsewhere_than_entered_says_so(world: World) -> None:
    lock = world.lock("here")

    async def leave() -> None:
        await lock.__aexit__(None, None, None)

    await lock.__aenter__()
    with pytest.raises(RuntimeError, match=r"'here'.*another thread or task.*hold\(\)"):
        await world.apart(leave())
    assert await lock.locked()
    await lock.__aexit__(None, None, None)
    assert not await lock.locked()


async def test_a_lease_that_was_handed_to_a_thread_or_task_is_watched_there(world: World) -> None:
    lease = await world.lock(ttl=0.1, renew=False).acquire()

    async def work() -> None:
        assert await lease.wait_lost(10)
        lease.check()

    with pytest.raises(LeaseLost):
        await world.apart(work())
