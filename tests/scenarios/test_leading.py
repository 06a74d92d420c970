"""`leader`: one term at a time, that ends in time, and what others see of it."""

import asyncio
import os
import socket
import threading
from typing import Any

import pytest

from holdtight import DeadlockDetected, LeaseLost, LockTimeout, LossReason, Unavailable
from tests.scenarios.world import World
from tests.support.memory import MEMORY

pytestmark = pytest.mark.played(kind=["exclusive"])
"""Jobs take exclusive locks."""


async def test_a_term_is_a_lease_that_others_see(world: World) -> None:
    leader: Any = world.client.leader("poller", label="10.0.0.5:80")
    assert await leader.current() is None
    async with leader as term:
        term.check()
        assert term.since == pytest.approx(term.fence / 1e6)
        now: Any = await world.locks().leader("poller").current()
        assert (now.fence, now.owner, now.label) == (term.fence, term.owner, "10.0.0.5:80")
        assert (now.host, now.pid) == (socket.gethostname(), os.getpid())
        assert now.as_dict()["label"] == "10.0.0.5:80"
        await term.proclaim("10.0.0.5:81")
        assert (await leader.current()).label == "10.0.0.5:81"
        term.check()
        assert await leader.contenders() == ()
    assert await leader.current() is None
    with pytest.raises(LeaseLost):
        await term.proclaim("late")


async def test_the_first_contender_leads_when_the_leader_resigns(world: World) -> None:
    leader: Any = world.client.leader("poller")
    term = await leader.campaign()

    async def next_term(label: str) -> Any:
        return await world.locks().leader("poller", label=label, wait=25).campaign()

    first, second = await world.line_up(world.client.lock("poller"), next_term("first"), next_term("second"))
    assert [each.label for each in await world.client.leader("poller").contenders()] == ["first", "second"]
    await term.resign()
    following = await first.result()
    assert following.fence > term.fence
    assert (await leader.current()).label == "first"
    await following.resign()
    await (await second.result()).resign()


async def test_a_term_counts_as_lost_before_its_lease_ends(world: World) -> None:
    term = await world.client.leader("poller", ttl=10, grace=4).campaign()
    plain = await world.client.lock("other", ttl=10).acquire()
    assert 3.5 < plain.remaining() - term.remaining() < 4.5
    await term.renew(20)
    await plain.renew(20)
    assert 3.5 < plain.remaining() - term.remaining() < 4.5
    await term.release()
    await plain.release()
    with pytest.raises(ValueError, match="grace"):
        world.client.leader("poller", ttl=10, grace=5)
    usual = await world.client.leader("poller", ttl=10).campaign()
    plain = await world.client.lock("other", ttl=10).acquire()
    assert 1.5 < plain.remaining() - usual.remaining() < 2.5, "a fifth of the ttl"
    await usual.release()
    await plain.release()


class Work:
    def __init__(self, world: World, client: Any = None, **options: Any) -> None:
        self.world, self.fences = world, list[int]()
        self.reasons = list[Any]()
        self.inside = 0
        self.returns = False
        self.error: Exception | None = None
        self.leader = (client or world.client).leader("poller", **options)

    async def poll(self, term: Any) -> None:
        self.fences.append(term.fence)
        self.inside += 1
        assert self.inside == 1, "never two at a time"
        try:
            if self.error is not None:
                raise self.error
            if not self.returns:
                await self.world.until(lambda: term.lost or self.returns)
        finally:
            self.inside -= 1
            self.reasons.append(term.reason)


async def test_run_leads_until_it_is_stopped_and_the_next_leads_at_once(world: World) -> None:
    one, other = Work(world), Work(world, world.locks())
    first = world.start(one.leader.run(one.poll))
    await world.until(lambda: one.inside)
    second = world.start(other.leader.run(other.poll))
    await world.in_line(world.client.lock("poller"), 1)
    one.leader.stop()
    await first.result()
    assert one.reasons == [LossReason.FORCED]
    await world.until(lambda: other.inside)
    assert other.fences[0] > one.fences[0]
    third = world.start(one.leader.run(one.poll))
    await world.in_line(world.client.lock("poller"), 1)
    one.leader.stop()  # while it campaigns
    await third.result()
    assert len(one.fences) == 1
    assert other.inside
    await world.until(lambda: True)
    other.leader.stop()
    await second.result()
    assert await one.leader.current() is None


@pytest.mark.takes_time
async def test_run_campaigns_again_when_its_term_is_lost_or_its_work_returns(world: World) -> None:
    world.forced_ms = 60_000
    work = Work(world)
    actor = world.start(work.leader.run(work.poll, pause="10ms"))
    await world.until(lambda: work.inside)
    await world.client.force_release("poller", reason="test")
    await world.until(lambda: len(work.fences) >= 2 and work.inside)
    assert work.reasons == [LossReason.FORCED]
    work.returns = True
    await world.client.force_release("poller", reason="test")
    await world.until(lambda: len(work.fences) >= 5)
    work.leader.stop()
    await actor.result()
    assert sorted(work.fences) == work.fences


async def test_work_that_raises_ends_run_or_is_tried_again(world: World) -> None:
    work = Work(world)
    work.error = OSError("no paper")
    with pytest.raises(OSError, match="no paper"):
        await work.leader.run(work.poll)
    assert await work.leader.current() is None
    actor = world.start(work.leader.run(work.poll, pause="10ms", on_error="campaign"))
    await world.until(lambda: len(work.fences) >= 3)
    work.leader.stop()
    await actor.result()
    for wrong in ({"pause": -1}, {"on_error": "x"}, {"on_overrun": "x"}):
        with pytest.raises(ValueError, match=r"\w"):
            await work.leader.run(work.poll, **wrong)


async def test_the_loss_of_another_lease_ends_run(world: World) -> None:
    leader: Any = world.client.leader("poller")

    async def work(term: Any) -> None:
        raise LeaseLost.because("other", LossReason.FORCED)

    with pytest.raises(LeaseLost, match="other"):
        await leader.run(work)
    assert await leader.current() is None


async def test_a_term_that_was_forced_proclaims_nothing_and_is_lost(world: World) -> None:
    world.forced_ms = 60_000
    leader: Any = world.client.leader("poller", label="one")

    async def lead() -> None:
        async with leader as term:
            await world.client.force_release("poller", reason="test")
            with pytest.raises(LeaseLost):
                await term.proclaim("two")
            assert term.lost

    with pytest.raises(LeaseLost):
        await lead()
    assert await leader.current() is None


async def test_each_block_of_a_shared_leader_ends_its_own_term(world: World) -> None:
    """One that has lost its term may still be at work when the next is elected."""
    world.forced_ms = 60_000
    leader: Any = world.client.leader("poller", wait=20)
    terms, ended = list[Any](), set[str]()

    async def lead(which: str) -> None:
        async with leader as term:
            terms.append(term)
            try:
                await world.until(lambda: which in ended)
            except asyncio.CancelledError:  # its term is lost
                await world.until(lambda: which in ended)
                raise

    first = world.start(lead("first"))
    await world.until(lambda: len(terms) == 1)
    await world.client.force_release("poller", reason="test")
    second = world.start(lead("second"))
    await world.until(lambda: len(terms) == 2)
    ended.add("first")
    with pytest.raises(LeaseLost):
        await first.result()
    terms[1].check()
    assert (await leader.current()).fence == terms[1].fence
    ended.add("second")
    await second.result()
    assert await leader.current() is None


async def test_a_contender_that_gives_up_changes_no_other_term_of_its_leader(world: World) -> None:
    leader: Any = world.client.leader("poller", wait="50ms")

    async def lead() -> None:
        async with leader:
            pass

    async with leader as term:
        with pytest.raises(LockTimeout):
            await world.apart(lead())
        with pytest.raises(DeadlockDetected):
            await lead()
        term.check()
    assert await leader.current() is None


async def test_stop_reaches_a_run_beside_which_a_block_has_failed(world: World) -> None:
    work = Work(world, wait="50ms")
    actor = world.start(work.leader.run(work.poll))
    await world.until(lambda: work.inside)
    with pytest.raises(LockTimeout):
        async with work.leader:
            pass
    work.leader.stop()
    await actor.result()
    assert work.reasons == [LossReason.FORCED]


async def test_a_leader_runs_once_at_a_time(world: World) -> None:
    work = Work(world)
    actor = world.start(work.leader.run(work.poll))
    await world.until(lambda: work.inside)
    with pytest.raises(RuntimeError, match="runs already"):
        await work.leader.run(work.poll)
    work.leader.stop()
    await actor.result()
    assert len(work.fences) == 1


async def test_a_campaign_of_run_ends_with_its_client(world: World) -> None:
    client = world.locks()
    work = Work(world, client)
    term: Any = await world.client.leader("poller").campaign()
    actor = world.start(work.leader.run(work.poll))
    await world.in_line(world.client.lock("poller"), 1)
    await client.aclose()
    with pytest.raises(RuntimeError, match="is closed"):
        await actor.result()
    await term.resign()
    with pytest.raises(RuntimeError, match="is closed"):
        await world.apart(work.leader.run(work.poll))
    assert work.fences == []


async def test_a_term_of_run_ends_with_its_work_also_when_its_client_was_closed(world: World) -> None:
    client = world.locks()
    work = Work(world, client)
    actor = world.start(work.leader.run(work.poll, pause=0))
    await world.until(lambda: work.inside)
    await client.aclose()
    assert (await world.client.leader("poller").current()).fence == work.fences[0]  # type: ignore[union-attr]
    work.returns = True
    with pytest.raises(RuntimeError, match="is closed"):
        await actor.result()
    assert (work.reasons, len(work.fences)) == ([None], 1)
    assert await world.client.leader("poller").current() is None


@pytest.mark.takes_time
async def test_observe_tells_every_change(world: World) -> None:
    leader, seen = world.client.leader("poller"), list[Any]()

    async def watch() -> None:
        async for each in world.locks().leader("poller").observe():
            seen.append(each)
            if len(seen) == 4:
                return

    actor = world.start(watch())
    await world.until(lambda: seen)
    term = await leader.campaign()
    await world.until(lambda: len(seen) >= 2)
    await term.proclaim("new")
    await world.until(lambda: len(seen) >= 3)
    await term.resign()
    await actor.result()
    assert [each and each.label for each in seen] == [None, None, "new", None]
    assert seen[1].fence == seen[2].fence == term.fence


@pytest.mark.parametrize("how", ["local", "open"])
@pytest.mark.played(server=[MEMORY])
async def test_without_the_server_nobody_leads(world: World, how: str, caplog: pytest.LogCaptureFixture) -> None:
    client = world.locks("redis://127.0.0.1:1", on_unavailable=how, connect_timeout=0.2)
    work = Work(world, client)
    with pytest.raises(Unavailable):
        await work.leader.campaign()
    with pytest.raises(Unavailable):
        async with work.leader:
            pass
    actor = world.start(work.leader.run(work.poll))
    await world.until(lambda: "cannot campaign" in caplog.text)
    work.leader.stop()
    await actor.result()
    assert work.fences == [], "it tries for ever, and every process would lead"


def observers() -> int:
    """The threads and tasks of `on_change`."""
    try:
        tasks = [task.get_coro() for task in asyncio.all_tasks()]
    except RuntimeError:
        tasks = []
    return sum("on_change" in getattr(coro, "__qualname__", "") for coro in tasks) + sum(
        thread.name == "holdtight-observer" for thread in threading.enumerate()
    )


async def test_on_change_tells_every_change_until_it_is_ended(world: World) -> None:
    seen = list[Any]()

    def tell(now: Any) -> None:
        seen.append(now)
        if len(seen) == 1:
            raise RuntimeError("a callback that fails ends nothing")

    end = world.locks().leader("poller").on_change(tell)
    await world.until(lambda: seen)
    assert seen == [None]
    term = await world.client.leader("poller").campaign()
    await world.until(lambda: len(seen) >= 2)
    assert seen[1].fence == term.fence
    end()
    await world.until(lambda: not observers())
    await term.resign()
    assert len(seen) == 2


@pytest.mark.takes_time
@pytest.mark.played(colour=["asyncio"])
async def test_the_body_is_cancelled_when_its_term_is_lost(world: World) -> None:
    world.forced_ms = 60_000
    cancelled = list[bool]()

    async def lead() -> None:
        async with world.client.leader("poller", ttl=3) as term:
            await world.client.force_release("poller", reason="test")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(term.lost)
                raise

    with pytest.raises(LeaseLost):
        await lead()
    assert cancelled == [True]


async def test_work_that_would_only_be_made_is_refused(world: World) -> None:
    leader: Any = world.client.leader("poller")

    def generates(term: Any) -> Any:
        yield term

    made = list[Any]()

    async def makes_one(term: Any) -> Any:
        made.append(term.fence)
        return generates(term)

    real = getattr(leader, "real", leader)
    with pytest.raises(TypeError, match="only makes an object"):
        await world.colour.call(real.run, generates)
    with pytest.raises(TypeError, match="a generator"):
        await world.colour.call(real.run, world.colour.function(makes_one))
    assert len(made) == 1
    assert await leader.current() is None, "it has resigned"
