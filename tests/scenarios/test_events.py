"""The stream of events: which come, in which order, with which contents."""

import asyncio
import logging
import time
from collections.abc import Sequence

import pytest

from holdtight import (
    AsyncLocks,
    DeadlockDetected,
    LeaseLost,
    LockTimeout,
    LossReason,
    NotOwner,
    Profile,
    QueueFull,
    Unavailable,
)
from holdtight.events import (
    Acquired,
    Detached,
    Event,
    Failed,
    HeldLong,
    Lost,
    NodeDown,
    PreviousExpired,
    Queued,
    Released,
    Renewed,
    TimedOut,
    Waited,
)
from tests.scenarios.world import World


def kinds(events: Sequence[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def reasons(events: Sequence[Event]) -> list[str]:
    assert all(isinstance(event, Failed) for event in events)
    return [event.reason for event in events if isinstance(event, Failed)]


async def test_a_free_lock_is_acquired_and_released(world: World) -> None:
    heard = world.listen()
    for _ in range(2):  # on a new connection, and on an open one
        async with world.lock("a") as lease:
            (acquired,) = heard
            assert isinstance(acquired, Acquired)
            assert (acquired.name, acquired.owner, acquired.fence) == ("a", lease.owner, lease.fence)
            assert 0 <= acquired.waited < 5
            since = time.monotonic()
            await world.sleep(0.01)
            inside = time.monotonic() - since
        _, released = heard
        assert isinstance(released, Released)
        assert (released.name, released.owner, released.fence) == ("a", lease.owner, lease.fence)
        assert inside <= released.held < 5
        heard.clear()


async def test_a_wait_is_told_before_the_lock_it_brought(world: World) -> None:
    waiting = world.locks()
    heard = world.listen(waiting)
    lease = await world.lock().acquire()
    (actor,) = await world.line_up(world.lock(), world.lock(of=waiting).acquire())
    await world.sleep(0.05)
    (queued,) = heard
    assert isinstance(queued, Queued)
    assert (queued.position, queued.holder) == (1, lease.owner)
    await lease.release()
    got = await actor.result()
    queued, waited, acquired = heard
    assert isinstance(waited, Waited)
    assert isinstance(acquired, Acquired)
    assert waited.acquired
    assert queued.owner == waited.owner == acquired.owner == got.owner
    assert acquired.fence == got.fence
    assert 0.05 <= waited.seconds < 5
    assert acquired.waited == pytest.approx(waited.seconds, abs=3)
    await got.release()
    assert kinds(heard) == [Queued, Waited, Acquired, Released]


async def test_a_wait_in_vain_names_the_holder(world: World) -> None:
    waiting = world.locks()
    heard = world.listen(waiting)
    async with world.lock() as lease:
        with pytest.raises(LockTimeout):
            await world.lock(of=waiting).acquire(wait=0.6)
    queued, timed_out, waited, failed = heard
    assert isinstance(queued, Queued)
    assert isinstance(timed_out, TimedOut)
    assert isinstance(waited, Waited)
    assert isinstance(failed, Failed)
    assert failed.reason == "timeout"
    assert failed.waited >= timed_out.waited
    assert timed_out.holder == lease.owner
    assert timed_out.owner == waited.owner != lease.owner
    assert 0.05 <= timed_out.waited < 5
    assert not waited.acquired


async def test_a_caller_that_did_not_wait_timed_out_but_did_not_wait(world: World) -> None:
    waiting = world.locks()
    heard = world.listen(waiting)
    async with world.lock() as lease:
        with pytest.raises(LockTimeout):
            await world.lock(of=waiting).acquire(wait=0)
        assert await world.lock(of=waiting).try_acquire() is None
    timed_out, *failed = heard
    assert isinstance(timed_out, TimedOut)
    assert timed_out.holder == lease.owner
    assert reasons(failed) == ["busy", "busy"]


@pytest.mark.no_cohort("other clients do not see the local line")
async def test_a_full_queue_is_no_wait(world: World) -> None:
    narrow = world.locks(max_waiters=1)
    heard = world.listen(narrow)
    lease = await world.lock().acquire()
    (actor,) = await world.line_up(world.lock(), world.lock().acquire())
    with pytest.raises(QueueFull):
        await world.lock(of=narrow).acquire()
    assert reasons(heard) == ["queue_full"]
    await lease.release()
    await (await actor.result()).release()


@pytest.mark.takes_time
async def test_every_event_about_a_lock_has_its_kind_and_the_pattern_of_its_profile(world: World) -> None:
    client = world.locks(profiles={"th*": Profile(ttl=3)})
    heard = world.listen(client, renewals=True)
    async with world.lock(of=client) as lease:
        await world.renewed(lease)
    lost = await world.lock(of=client, ttl=0.3, renew=False).acquire()
    await lost.wait_lost(10)
    await world.until(lambda: Lost in kinds(heard))
    async with world.lock("other", of=client):
        pass
    assert {event.kind for event in heard} == {lease.kind}
    assert {event.template for event in heard if event.name == "thing"} == {"th*"}
    assert {event.template for event in heard if event.name == "other"} == {None}


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_caller_that_would_wait_for_itself_has_failed(world: World) -> None:
    heard = world.listen()
    lock = world.lock()
    async with lock:
        del heard[:]
        with pytest.raises(DeadlockDetected):
            await lock.acquire()
        with pytest.raises(LockTimeout):
            await lock.acquire(wait=0)
        assert await lock.try_acquire() is None
        assert reasons(heard) == ["deadlock", "busy", "busy"]
        del heard[:]


async def test_a_cancelled_wait_has_failed_once(world: World) -> None:
    waiting = world.locks()
    heard = world.listen(waiting)
    async with world.lock():
        if not world.blocking:
            task = asyncio.ensure_future(world.lock(of=waiting).acquire())
            await world.until(lambda: kinds(heard) == [Queued])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            waiting.events.subscribe(_interrupt)
            with pytest.raises(KeyboardInterrupt):
                await world.lock(of=waiting).acquire()
    assert kinds(heard) == [Queued, Waited, Failed]
    assert reasons(heard[-1:]) == ["cancelled"]


def _interrupt(event: Event) -> None:
    if isinstance(event, Queued):
        raise KeyboardInterrupt


async def test_a_server_that_cannot_be_reached_fails_an_acquisition_and_is_told_of(world: World) -> None:
    client = world.locks("redis://127.0.0.1:1", connect_timeout=0.2)
    heard = world.listen(client)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await world.lock(of=client).acquire()
    await world.until(lambda: NodeDown in kinds(heard))
    failed = [event for event in heard if isinstance(event, Failed)]
    assert reasons(failed) == ["unavailable"] * 2
    assert all(event.waited > 0 for event in failed)
    (down,) = [event for event in heard if isinstance(event, NodeDown)]
    assert (down.node, down.name, down.kind) == ("redis://127.0.0.1:1/0", "", None)


async def test_a_closed_client_has_failed_too(world: World) -> None:
    client = world.locks()
    heard = world.listen(client)
    await client.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await world.lock(of=client).acquire()
    assert reasons(heard) == ["error"]


async def test_a_loss_that_only_the_release_finds_is_told(world: World) -> None:
    heard = world.listen()
    lease = await world.lock(ttl=20).acquire()
    world.server.flushall()
    with pytest.raises(NotOwner):
        await lease.release()
    await world.until(lambda: Lost in kinds(heard))
    assert kinds(heard) == [Acquired, Lost]


async def test_renewals_are_told(world: World) -> None:
    heard = world.listen(renewals=True)
    lease = await world.lock(ttl=1.2).acquire()
    await world.until(lambda: len(heard) >= 2)
    event = heard[1]
    assert isinstance(event, Renewed)
    assert (event.name, event.owner, event.fence) == ("thing", lease.owner, lease.fence)
    assert 0 < event.remaining < 1.2
    await lease.renew(20)
    await world.until(lambda: isinstance(heard[-1], Renewed) and heard[-1].remaining > 10)
    await lease.release()


async def expect_loss(world: World, heard: list[Event], owner: str, fence: int, reason: LossReason) -> None:
    await world.until(lambda: Lost in kinds(heard))
    lost = heard[-1]
    assert isinstance(lost, Lost)
    assert (lost.name, lost.owner, lost.fence, lost.reason) == ("thing", owner, fence, reason)
    assert 0 < lost.held < 30


async def test_an_expiry_is_told_once_and_by_the_next_taker_too(world: World) -> None:
    heard = world.listen()
    lease = await world.lock(ttl=0.5, renew=False).acquire()
    await lease.wait_lost(10)
    await expect_loss(world, heard, lease.owner, lease.fence, LossReason.EXPIRED)
    next_one = world.locks()
    heard_next = world.listen(next_one)
    async with world.lock(of=next_one, wait=10):
        (expired,) = [event for event in heard_next if isinstance(event, PreviousExpired)]
        assert expired.previous == lease.owner
        assert kinds(heard_next)[-1] is Acquired
    with pytest.raises(LeaseLost):
        await lease.release()
    assert kinds(heard) == [Acquired, Lost]  # and no release


async def test_a_loss_of_data_is_told_as_an_expiry(world: World) -> None:
    heard = world.listen()
    lease = await world.lock(ttl=1.5).acquire()
    world.server.flushall()
    await lease.wait_lost(10)
    await expect_loss(world, heard, lease.owner, lease.fence, LossReason.EXPIRED)
    with pytest.raises(LeaseLost):
        await lease.release()
    assert kinds(heard) == [Acquired, Lost]


async def test_max_hold_is_told(world: World) -> None:
    heard = world.listen()
    lease = await world.lock(max_hold=0.3).acquire()
    await lease.wait_lost(10)
    await expect_loss(world, heard, lease.owner, lease.fence, LossReason.MAX_HOLD)
    assert kinds(heard) == [Acquired, Lost]


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_re_entry_is_one_grant(world: World) -> None:
    heard = world.listen()
    lock = world.lock(reentrant=True)
    async with lock, lock, lock:
        pass
    assert kinds(heard) == [Acquired, Released]


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_an_adoption_is_told_as_a_grant(world: World) -> None:
    adopter = world.locks()
    heard = world.listen(adopter)
    text = await (await world.lock(ttl=20).acquire()).detach()
    lease = await adopter.adopt(text)
    await lease.release()
    acquired, released = heard
    assert isinstance(acquired, Acquired)
    assert isinstance(released, Released)
    assert acquired.owner == released.owner == lease.owner
    assert acquired.fence == released.fence == lease.fence


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_detached_lease_is_told_to_have_ended_here(world: World) -> None:
    heard = world.listen()
    lease = await world.lock(ttl=20).acquire()
    text = await lease.detach()
    await (await world.client.adopt(text)).release()
    assert kinds(heard) == [Acquired, Detached, Acquired, Released]
    assert isinstance(heard[1], Detached)
    assert (heard[1].owner, heard[1].fence) == (lease.owner, lease.fence)


async def test_a_subscriber_that_fails_changes_nothing_for_others(world: World) -> None:
    def fail(event: Event) -> None:
        raise ZeroDivisionError

    world.client.events.subscribe(fail)
    heard = world.listen()
    async with world.lock():
        pass
    assert kinds(heard) == [Acquired, Released]


async def test_a_subscription_ends_when_told_to(world: World) -> None:
    heard: list[Event] = []
    first = world.client.events.subscribe(heard.append)
    second = world.client.events.subscribe(heard.append)
    first()
    first()
    async with world.lock():
        second()
    assert kinds(heard) == [Acquired]
    with pytest.raises(TypeError, match="callable"):
        world.client.events.subscribe(None)  # type: ignore[arg-type]


@pytest.mark.takes_time
async def test_a_hold_that_lasts_long_is_told_once_a_grant(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.locks(profiles={"th*": Profile(ttl=3, warn_after="500ms")})
    heard = world.listen(client)
    for _ in range(2):
        heard.clear()
        async with world.lock(of=client) as lease:
            await world.until(lambda: HeldLong in kinds(heard))
            await world.renewed(lease)
        assert kinds(heard) == [Acquired, HeldLong, Released]
        event = heard[1]
        assert isinstance(event, HeldLong)
        assert (event.name, event.owner, event.fence) == ("thing", lease.owner, lease.fence)
        assert 0.5 <= event.held < 10
    said = [record for record in caplog.records if "held thing for" in record.getMessage()]
    assert [record.levelname for record in said] == ["WARNING", "WARNING"]


async def test_clients_hear_of_their_own_locks_only(world: World) -> None:
    other: AsyncLocks = world.locks()
    heard = world.listen(other)
    async with world.lock():
        pass
    assert heard == []


async def test_events_go_to_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="holdtight")
    async with world.lock("logged") as lease:
        pass
    records = [record for record in caplog.records if record.name == "holdtight"]
    whose = f"fence {lease.fence}, owner {lease.owner}"
    said = [record.getMessage() for record in records]
    assert [line.split(" after ")[0] for line in said] == ["acquired logged", "released logged"]
    assert all(line.endswith(f"s, {whose}") for line in said)
    assert vars(records[0])["lock_fence"] == lease.fence
    assert vars(records[0])["lock_owner"] == lease.owner[:11]
