"""`once`: one call runs, the others are skipped, and the record says what became of it."""

import os
import socket
from functools import partial
from typing import Any

import pytest

from holdtight import AsyncLocks, JobSkipped, Profile, Run, Skipped, Unavailable
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])
"""Jobs take exclusive locks."""


@pytest.fixture(autouse=True)
def records_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records stay as long as was asked for; nothing else does."""
    overstaying = world.overstaying
    monkeypatch.setattr(
        world, "overstaying", lambda: {key: left for key, left in overstaying().items() if "}:o" not in key or left < 0}
    )


class Job:
    """A job whose runs are counted; it does what `then` says."""

    def __init__(self, world: World, client: AsyncLocks | None = None, **options: Any) -> None:
        self.world, self.runs = world, list[Any]()
        self.error: BaseException | None = None
        self.go = self.started = False
        self.hold = False

        @(client or world.client).once("billing:{tenant}", **options)
        async def bill(tenant: str, day: int = 1) -> str:
            self.runs.append((tenant, day))
            self.started = True
            if self.hold:
                await world.until(lambda: self.go)
            if self.error is not None:
                raise self.error
            return f"billed {tenant}"

        self.bill: Any = bill


async def test_one_start_in_at_least_and_the_next_is_skipped(world: World) -> None:
    job = Job(world, at_least="50m", label="cron")
    assert await job.bill.last("acme") is None
    assert await job.bill("acme") == "billed acme"
    skipped = await job.bill("acme")
    assert isinstance(skipped, Skipped)
    assert not skipped
    assert (skipped.name, skipped.why) == ("billing:acme", "done")
    assert skipped.holder is not None
    assert (skipped.holder.host, skipped.holder.pid, skipped.holder.label) == (
        socket.gethostname(), os.getpid(), "cron",
    )  # fmt: skip
    assert skipped.retry_in is not None
    assert 2_900 < skipped.retry_in <= 3_000
    run = await job.bill.last("acme")
    assert isinstance(run, Run)
    assert (run.state, run.host, run.pid, run.label, run.error) == (
        "done", socket.gethostname(), os.getpid(), "cron", None,
    )  # fmt: skip
    assert run.started == skipped.since
    assert run.seconds is not None
    assert run.fence == skipped.holder.fence
    assert await job.bill("other") == "billed other"
    await job.bill.forget("acme")
    assert await job.bill.last("acme") is None
    assert await job.bill("acme") == "billed acme"
    assert len(job.runs) == 3
    assert skipped.as_dict()["holder"]["label"] == run.as_dict()["label"] == "cron"


async def test_a_skip_costs_one_request(world: World) -> None:
    count = world.tap()
    job = Job(world, at_least=60)
    await job.bill("acme")
    before = count()
    assert not await job.bill("acme")
    assert count() - before <= 3, "MGET, PTTL and PTTL in one write"


async def test_calls_that_overlap_are_skipped_and_say_who_runs(world: World) -> None:
    first, second = Job(world), Job(world, world.locks(label="second"), at_least=60)
    first.hold = second.hold = True
    for job, other in ((first, second), (second, first)):
        actor = world.start(job.bill("acme"))
        await world.until(partial(getattr, job, "started"))
        for asking in (other, job):
            skipped = await asking.bill("acme")
            assert (skipped.why, skipped.holder.pid) == ("running", os.getpid())
            assert skipped.since == skipped.holder.since is not None
        if job is second:
            run = await job.bill.last("acme")
            assert (run.state, run.label, run.seconds, run.error) == ("running", "second", None, None)
        job.go = True
        assert await actor.result() == "billed acme"
    assert await first.bill("acme") == "billed acme", "without a record, only calls that overlap are skipped"


async def test_occurrences_run_once_each(world: World) -> None:
    job = Job(world, per="{day}")
    assert [bool(await job.bill("acme", day)) for day in (1, 2, 1, 3, 2)] == [True, True, False, True, False]
    assert (await job.bill.last("acme", 3)).state == "done"
    assert await job.bill.last("acme", 4) is None
    assert 86_000 < (await job.bill("acme", 1)).retry_in <= 86_400


@pytest.mark.parametrize("policy", ["wait", "retry"])
async def test_a_body_that_raises(world: World, policy: Any) -> None:
    job = Job(world, at_least=60, after_failure=policy)
    job.error = OSError("no paper")
    with pytest.raises(OSError, match="no paper"):
        await job.bill("acme")
    run = await job.bill.last("acme")
    assert (run.state, run.error) == ("failed", "builtins.OSError: no paper")
    assert not (await world.client.inspect("billing:acme")).locked
    job.error = None
    again = await job.bill("acme")
    assert again == "billed acme" if policy == "retry" else again.why == "done"
    if policy == "retry":
        assert (await job.bill("acme")).why == "done", "a body that returned counts"


async def test_what_a_skip_does(world: World) -> None:
    await Job(world, at_least=60).bill("acme")
    with pytest.raises(JobSkipped, match=r"'billing:acme' skipped: it has been started by .*again in") as caught:
        await Job(world, at_least=60, on_skip="raise").bill("acme")
    assert caught.value.skipped.why == "done"
    assert (caught.value.code, caught.value.name) == ("JOB_SKIPPED", "billing:acme")
    assert await Job(world, at_least=60, on_skip=lambda skipped: skipped.why.upper()).bill("acme") == "DONE"
    if not world.blocking:

        async def told(skipped: Skipped) -> str:
            return f"told {skipped.why}"

        assert await Job(world, at_least=60, on_skip=told).bill("acme") == "told done"


class Later:
    def __await__(self) -> Any:
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize("options", [{}, {"at_least": 60, "after_failure": "retry"}], ids=["no record", "a record"])
async def test_a_body_that_only_makes_an_object_has_failed(world: World, options: Any) -> None:
    for made, said in (((each for each in ""), "a generator"), (Later(), "an awaitable")):

        async def makes(made: Any = made) -> Any:
            return made

        job = world.client.once("job", **options)(makes)
        with pytest.raises(TypeError, match=f"returned {said} under the lock"):
            await job()
        assert not (await world.client.inspect("job")).locked
        if options:
            assert (await job.last()).state == "failed"  # type: ignore[union-attr]


async def test_waiting_stands_in_line_and_then_decides_by_the_record(world: World) -> None:
    migrate = Job(world, world.locks(), at_least=60, wait=20)
    migrate.hold = True
    actors = [world.start(migrate.bill("acme"))]
    await world.until(lambda: migrate.started)
    others = [Job(world, world.locks(), at_least=60, wait=20) for _ in range(3)]
    actors += [world.start(other.bill("acme")) for other in others]
    await world.in_line(world.client.lock("billing:acme"), 3)
    migrate.go = True
    results = [await actor.result() for actor in actors]
    assert results[0] == "billed acme"
    assert [each.why for each in results[1:]] == ["done"] * 3
    assert not any(other.runs for other in others)
    impatient = Job(world, at_least=60, wait="50ms")
    assert (await impatient.bill("acme")).why == "done", "nothing to wait for"


@pytest.mark.usefixtures("wide")
async def test_calls_under_the_profile_of_a_cohort_run_once_too(world: World) -> None:
    """The members of a cohort share one owner, by which the server tells one run from another."""
    client = world.locks(profiles={"billing:*": Profile(cohort=True)})
    job = Job(world, client, at_least=60, wait=20)
    job.hold = True
    first = world.start(job.bill("acme"))
    await world.until(lambda: job.started)
    others = await world.line_up(client.lock("billing:acme"), *(job.bill("acme") for _ in range(3)))
    job.go = True
    assert await first.result() == "billed acme"
    assert [getattr(await other.result(), "why", "ran") for other in others] == ["done"] * 3
    assert len(job.runs) == 1


async def test_itself_within_itself_is_skipped(world: World) -> None:
    inner = list[Any]()

    @world.client.once("self", wait=5)
    async def again(depth: int) -> int:
        if depth:
            inner.append(await again(depth - 1))
        return depth

    assert await again(1) == 1
    assert inner[0].why == "running"
    assert inner[0].holder.pid == os.getpid()


async def test_wrong_options_show_at_decoration(world: World) -> None:
    async def job() -> None: ...

    for wrong, said in (
        ({"at_least": 0}, "at_least"),
        ({"at_least": "9999h"}, "366 days"),
        ({"after_failure": "ignore"}, "after_failure"),
        ({"on_skip": "shout"}, "on_skip"),
        ({"wait": -1}, "wait"),
        ({"ttl": 0}, "ttl"),
        ({"per": "{day}"}, "no such parameter"),
    ):
        with pytest.raises(ValueError, match=said):
            world.client.once("x", **wrong)(job)


async def test_without_the_server_the_body_does_not_run(world: World) -> None:
    client = world.locks("redis://127.0.0.1:1", on_unavailable="open", connect_timeout=0.2)
    job = Job(world, client, at_least=60)
    with pytest.raises(Unavailable):
        await job.bill("acme")
    assert not job.runs
    assert await Job(world, client).bill("acme") == "billed acme", "without a record, as the client says"
