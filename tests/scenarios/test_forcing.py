"""Releasing a lock by force: its holders lose it and are told, the next in line gets it, and a record stays."""

import os
import socket
from typing import Any

import pytest

from holdtight import AsyncLease, AsyncLocks, AuditRecord, Kind, LeaseLost, LossReason, NotOwner
from holdtight.base.values import LISTED
from holdtight.events import Forced, Lost
from holdtight.keeper.connection import KeeperConnection
from tests.scenarios.world import World

WHY = {"reason": "it hangs since 4:12", "by": "ops@desk"}


@pytest.fixture(autouse=True)
def holders_had_time_left(world: World) -> None:
    world.forced_ms = 60_000


async def forced(client: AsyncLocks, name: str = "thing", **options: Any) -> AuditRecord:
    record = await client.force_release(name, **{**WHY, **options})
    assert record is not None
    return record


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_the_holder_loses_it_and_a_record_says_who_did_it_and_why(world: World) -> None:
    lease = await world.lock(label="nightly").acquire()
    operator = world.locks()
    record = await forced(operator)
    (holder,) = record.holders
    assert (record.action, record.name, record.kind) == ("force_release", "thing", lease.kind)
    assert (record.by, record.reason, record.next) == ("ops@desk", "it hangs since 4:12", None)
    assert (record.host, record.pid) == (socket.gethostname(), os.getpid())
    assert (holder.owner, holder.fence, holder.label, holder.pid) == (lease.owner, lease.fence, "nightly", os.getpid())
    assert record.fence > lease.fence
    assert await operator.audit() == [record]
    assert not (await world.lock().inspect()).locked
    with pytest.raises(NotOwner) as raised:
        await lease.release()
    assert raised.value.reason is LossReason.FORCED
    assert lease.reason is LossReason.FORCED
    async with world.lock() as again:
        assert again.fence > record.fence


async def test_nothing_held_leaves_no_record(world: World) -> None:
    assert await world.client.force_release("new", reason="why not") is None
    await (await world.lock("old").acquire()).release()
    assert await world.client.force_release("old", reason="why not") is None
    assert await world.client.audit() == []
    assert not [key for key in world.server.time_left() if key.endswith(":audit")]


async def test_the_next_in_line_gets_it_and_the_order_is_kept(world: World) -> None:
    lock, order = world.lock(), list[str]()

    async def take(word: str) -> AsyncLease:
        lease = await world.lock(of=world.locks(label=word), wait=25).acquire()
        order.append(word)
        return lease

    lease = await lock.acquire()
    first, second = await world.line_up(lock, take("first"), take("second"))
    record = await forced(world.client)
    taken = await first.result()
    assert record.next == taken.owner
    assert lease.fence < record.fence < taken.fence
    assert order == ["first"]
    await taken.release()
    other = await second.result()
    assert order == ["first", "second"]
    assert other.fence > taken.fence
    await other.release()
    with pytest.raises(NotOwner, match="by force"):
        await lease.release()


async def test_a_holder_that_is_renewed_is_told_at_once(world: World) -> None:
    lease = await world.lock(ttl=60).acquire()
    await lease.renew()
    heard = world.listen()
    await forced(world.locks())
    await world.until(lambda: lease.reason is not None, within=8, what="the alarm: the next renewal is due in 20 s")
    assert lease.reason is LossReason.FORCED
    await world.until(lambda: any(isinstance(event, Lost) for event in heard))
    (lost,) = [event for event in heard if isinstance(event, Lost)]
    assert (lost.owner, lost.reason) == (lease.owner, LossReason.FORCED)
    with pytest.raises(NotOwner):
        await lease.release()


@pytest.mark.takes_time
async def test_a_holder_that_was_not_renewed_yet_is_told_by_its_first_renewal(world: World) -> None:
    lease = await world.lock(ttl=3).acquire()
    await forced(world.locks())
    await world.until(lambda: lease.lost, within=10)
    assert lease.reason is LossReason.FORCED
    with pytest.raises(NotOwner):
        await lease.release()


async def test_a_renewal_that_a_caller_waits_for_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeeperConnection, "_hurry", lambda *alarm: None)  # the alarm must not come before the renewal
    lease = await world.lock().acquire()
    await forced(world.locks())
    with pytest.raises(NotOwner) as raised:
        await lease.renew()
    assert raised.value.reason is LossReason.FORCED


@pytest.mark.takes_time
async def test_the_body_of_a_block_is_left_with_the_loss(world: World) -> None:
    operator = world.locks()

    async def work() -> None:
        async with world.lock(ttl=3) as lease:
            await forced(operator)
            while not lease.lost:
                await world.sleep(0.01)  # the body of an asyncio block is cancelled here

    with pytest.raises(LeaseLost) as raised:
        await work()
    assert raised.value.reason is LossReason.FORCED


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_every_force_is_told_to_subscribers_of_the_client_that_did_it(world: World) -> None:
    lease = await world.lock().acquire()
    operator = world.locks()
    heard, others = world.listen(operator), world.listen()
    await forced(operator)
    assert [event.as_dict() | {"kind": None} for event in heard] == [
        Forced("thing", lease.owner, lease.fence, "ops@desk", "it hangs since 4:12").as_dict()
    ]
    assert [event.kind for event in heard] == [lease.tenure.kind]
    assert [event for event in others if isinstance(event, Forced)] == []
    with pytest.raises(NotOwner):
        await lease.release()


async def test_another_owner_is_not_hit(world: World) -> None:
    lease = await world.lock().acquire()
    other = await world.lock("other").acquire()
    assert await world.client.force_release("thing", owner=other.owner, **WHY) is None
    assert (await world.lock().inspect()).holders[0].owner == lease.owner
    assert (await forced(world.client, owner=lease.owner)).holders[0].owner == lease.owner
    await other.release()
    with pytest.raises(NotOwner):
        await lease.release()


async def test_who_did_it_is_the_user_of_the_process_unless_it_is_said(world: World) -> None:
    lease = await world.lock().acquire()
    record = await forced(world.client, by=None)
    user, _, host = record.by.partition("@")
    assert user
    assert socket.gethostname().startswith(host[:20])
    with pytest.raises(NotOwner):
        await lease.release()


@pytest.mark.locks_only("a permit is not entered again")
async def test_a_lock_that_was_entered_again_is_lost_in_all_its_handles(world: World) -> None:
    lock = world.lock(reentrant=True)
    one, two = await lock.acquire(), await lock.acquire()
    record = await forced(world.locks())
    assert len(record.holders) == 1
    await two.release()
    with pytest.raises(NotOwner) as raised:
        await one.release()
    assert raised.value.reason is LossReason.FORCED


@pytest.mark.locks_only("permits are not handed on")
async def test_a_detached_lock_cannot_be_adopted_any_more(world: World) -> None:
    text = await (await world.lock().acquire()).detach(ttl=20)
    record = await forced(world.client)
    with pytest.raises(LeaseLost) as raised:
        await world.client.adopt(text)
    assert raised.value.reason is LossReason.FORCED
    async with world.lock() as lease:
        assert lease.fence > record.fence
        with pytest.raises(LeaseLost) as raised:
            await world.client.adopt(text)
    assert raised.value.reason is LossReason.FORCED


@pytest.mark.locks_only("a permit has no downgrade")
async def test_a_writer_that_was_forced_does_not_become_a_reader(world: World) -> None:
    writer = await world.client.rwlock("book").write().acquire()
    await forced(world.client, "book")
    with pytest.raises(LeaseLost) as raised:
        await writer.downgrade()
    assert raised.value.reason is LossReason.FORCED
    assert (await world.client.inspect("book")).holders == ()


async def test_an_old_loss_by_force_says_nothing_about_a_new_lease(world: World) -> None:
    lease = await world.lock().acquire()
    await forced(world.client)
    with pytest.raises(NotOwner):
        await lease.release()
    for _ in range(3):
        async with world.lock() as again:
            await again.renew()
        assert again.reason is None


# Shared kinds


@pytest.fixture
def once(world: World) -> World:
    """For scenarios that name the kind themselves."""
    return world


async def test_all_readers_lose_it_or_the_one_that_is_named(once: World) -> None:
    book, operator = once.client.rwlock("book"), once.locks()
    readers = [await book.read().acquire() for _ in range(3)]
    one = await forced(operator, "book", owner=readers[1].owner)
    assert [each.owner for each in one.holders] == [readers[1].owner]
    assert one.kind is Kind.SHARED
    left = await once.client.inspect("book")
    assert {each.owner for each in left.holders} == {readers[0].owner, readers[2].owner}
    await readers[0].renew()
    rest = await forced(operator, "book")
    assert {each.owner for each in rest.holders} == {readers[0].owner, readers[2].owner}
    assert max(reader.fence for reader in readers) < one.fence < rest.fence
    for reader in readers:
        with pytest.raises(NotOwner) as raised:
            await reader.release()
        assert raised.value.reason is LossReason.FORCED
    async with book.write() as writer:
        assert writer.fence > rest.fence
    assert [record.id for record in await operator.audit()] == [rest.id, one.id]


async def test_a_writer_behind_readers_gets_it(once: World) -> None:
    book = once.client.rwlock("book")
    readers = [await book.read().acquire() for _ in range(2)]
    (actor,) = await once.line_up(book.write(), book.write(wait=25).acquire())
    record = await forced(once.client, "book")
    writer = await actor.result()
    assert (record.next, record.fence < writer.fence) == (writer.owner, True)
    await writer.release()
    for reader in readers:
        with pytest.raises(NotOwner):
            await reader.release()


async def test_readers_behind_a_writer_all_get_it(once: World) -> None:
    book = once.client.rwlock("book")
    writer = await book.write().acquire()
    actors = await once.line_up(book.write(), *(book.read(wait=25).acquire() for _ in range(2)))
    record = await forced(once.client, "book")
    readers = [await actor.result() for actor in actors]
    assert record.next == readers[0].owner
    assert all(reader.fence > record.fence for reader in readers)
    for reader in readers:
        await reader.release()
    with pytest.raises(NotOwner):
        await writer.release()


async def test_the_permits_of_one_holder_go_to_the_next_in_line(once: World) -> None:
    gate = once.client.semaphore("gate", permits=3, wait=25)
    two, one = await gate.acquire(2), await gate.acquire()
    (actor,) = await once.line_up(gate, gate.acquire(2))
    record = await forced(once.client, "gate", owner=two.owner)
    assert (record.kind, record.holders[0].n) == (Kind.PERMITS, 2)
    taken = await actor.result()
    assert (record.next, record.fence < taken.fence) == (taken.owner, True)
    assert sum(each.n for each in (await once.client.inspect("gate")).holders) == 3
    assert await gate.try_acquire() is None
    await one.release()
    await taken.release()
    with pytest.raises(NotOwner) as raised:
        await two.release()
    assert raised.value.reason is LossReason.FORCED


async def test_all_holders_lose_it_also_those_that_an_inspection_does_not_show(once: World) -> None:
    gate = once.client.semaphore("gate", permits=LISTED + 20, ttl=60, wait=25)
    leases = [await gate.acquire() for _ in range(LISTED + 20)]
    info = await once.client.inspect("gate")
    assert (len(info.holders), info.holding) == (LISTED, LISTED + 20)
    (actor,) = await once.line_up(gate, gate.acquire())
    last = await forced(once.client, "gate", owner=leases[-1].owner)
    assert [each.owner for each in last.holders] == [leases[-1].owner]
    later = await actor.result()
    record = await forced(once.client, "gate", owner=None)
    assert {each.owner for each in record.holders} == {each.owner for each in [*leases[:-1], later]}
    assert record.fence > later.fence
    assert await gate.locked() is False
    assert sum(len(each.holders) for each in await once.client.audit()) == LISTED + 21
    async with gate as again:
        assert again.fence > record.fence
    for lease in [*leases, later]:
        with pytest.raises(NotOwner):
            await lease.release()


@pytest.mark.takes_time
async def test_one_name_of_a_multi_lock_loses_the_whole(once: World) -> None:
    several = once.client.multi("a", "b", ttl=3)
    lease = await several.acquire()
    await forced(once.locks(), "a")
    await once.until(lambda: lease.lost, within=10)
    assert lease.reason is LossReason.FORCED
    with pytest.raises(LeaseLost):
        await lease.release()

    async def all_free() -> bool:
        return not await several.locked()

    await once.until(all_free)


# The records


async def test_records_come_newest_first_and_can_be_chosen_by_name(world: World) -> None:
    for name in ("a", "b", "a"):
        lease = await world.lock(name).acquire()
        await forced(world.client, name, reason=f"about {name}")
        with pytest.raises(NotOwner):
            await lease.release()
    records = await world.client.audit()
    assert [record.name for record in records] == ["a", "b", "a"]
    assert [record.at for record in records] == sorted((record.at for record in records), reverse=True)
    assert await world.client.audit(2) == records[:2]
    assert await world.client.audit(1, name="b") == [records[1]]
    assert await world.client.audit(name="c") == []
    assert await world.locks(namespace="ht2").audit() == []
    assert records[0].as_dict()["holders"][0]["kind"] == records[0].holders[0].kind.value


async def test_texts_of_every_sort_come_back_as_they_were(world: World) -> None:
    reason, by, name = 'größer als "1" \\ {x} 🔒' * 3, "Ö@日本", "naïve {name} %"
    lease = await world.lock(name, label="ünï").acquire()
    record = await world.client.force_release(name, reason=reason, by=by)
    assert record is not None
    assert (record.reason, record.by, record.name, record.holders[0].label) == (reason, by, name, "ünï")
    assert await world.client.audit() == [record]
    with pytest.raises(NotOwner):
        await lease.release()


async def test_nothing_but_the_record_is_left(world: World) -> None:
    lease = await world.lock(ttl=3).acquire()
    await forced(world.client)
    with pytest.raises(NotOwner):
        await lease.release()
    left = {key: ms for key, ms in world.server.time_left().items() if ":client:" not in key}
    (record,) = (key for key in left if key.endswith(":audit"))
    assert left.pop(record) > 89 * 24 * 3_600_000
    assert set(left) == {"ht:{thing}", "ht:{thing}:w"}
    assert max(left.values()) <= 13_100  # the holder's time left, and ten seconds
