"""`single_flight`: one call computes, the others get what it has computed."""

from functools import partial
from typing import Any

import pytest

import holdtight
from holdtight import FlightFailed, LockTimeout, Peek, Profile
from holdtight.events import RefreshFailed
from tests.scenarios.reports import Report
from tests.scenarios.world import World

pytestmark = [pytest.mark.played(kind=["exclusive"]), pytest.mark.usefixtures("values_go")]
"""Jobs take exclusive locks."""


class NotFound(Exception):
    pass


class NoSuchReport(NotFound):
    pass


async def test_a_fresh_value_is_returned_and_computed_once_for_each_name(world: World) -> None:
    one, other = Report(world), Report(world, world.locks())
    assert await one.report.peek(7) is None
    first = await one.report(7)
    assert first == {"id": 7, "number": 1}
    assert await other.report(7) == await one.report(7) == first
    assert (one.computed, other.computed) == (1, 0)
    await one.report(8)
    assert one.computed == 2
    peek = await other.report.peek(7)
    assert isinstance(peek, Peek)
    assert (peek.value, peek.state) == (first, "fresh")
    assert 0 <= peek.age < 30
    assert one.report.name(7) == "report:7"


async def test_none_is_a_value_and_everybody_gets_it_as_decoded(world: World) -> None:
    calls = list[int]()

    async def nothing() -> Any:
        calls.append(1)

    flight = world.client.single_flight("fx", ttl=60)
    assert await flight.get_or_create(nothing) is None
    assert await flight.get_or_create(nothing) is None
    assert calls == [1]
    pair = Report(world)
    pair.value = (1, 2)
    assert await pair.report(1) == [1, 2], "as JSON has it, for the call that computed too"


async def test_many_callers_of_many_clients_share_one_computation(world: World) -> None:
    leader = Report(world, world.locks())
    first = await leader.in_the_air()
    others = [Report(world, world.locks()) for _ in range(2)]
    actors = [world.start(each.report(7)) for each in (leader, leader, *others, others[0])]
    await world.in_line(world.client.lock("report:7"), 2)  # one place for each client that waits
    leader.go = True
    assert [await actor.result() for actor in (first, *actors)] == [{"id": 7, "number": 1}] * 6
    assert [each.computed for each in (leader, *others)] == [1, 0, 0]


async def test_a_stale_value_is_given_at_once_while_one_call_refreshes_it(world: World) -> None:
    one, other = Report(world, stale=600), Report(world, world.locks(), stale=600)
    await one.report(7)
    await one.report.expire(7)
    peek = await other.report.peek(7)
    assert peek.state == "stale"
    assert 60 <= peek.age < 90, "the ttl counts as over"
    actor = await one.in_the_air()
    assert await one.report(7) == await other.report(7) == {"id": 7, "number": 1}
    one.go = True
    assert await actor.result() == {"id": 7, "number": 2}
    assert await other.report(7) == {"id": 7, "number": 2}
    assert other.computed == 0


async def test_a_refresh_in_the_background_gives_the_stale_value_to_all(world: World) -> None:
    job = Report(world, stale=600, refresh="background")
    await job.report(7)
    await job.report.expire(7)
    assert await job.report(7) == {"id": 7, "number": 1}

    async def refreshed() -> bool:
        return bool((await job.report.peek(7)).value["number"] == 2)

    await world.until(refreshed)
    assert await job.report(7) == {"id": 7, "number": 2}


async def test_at_most_four_values_are_refreshed_in_the_background(world: World) -> None:
    job = Report(world, stale=600, refresh="background")
    for id in range(6):
        await job.report(id)
        await job.report.expire(id)
    job.hold, job.go = True, False
    assert [(await job.report(id))["number"] for id in range(6)] == [1, 2, 3, 4, 5, 6]
    await world.until(lambda: job.computed == 10)
    job.go = True

    async def refreshed() -> bool:
        return [(await job.report.peek(id)).value["number"] > 6 for id in range(6)] == [True] * 4 + [False] * 2

    await world.until(refreshed)
    assert job.computed == 10


async def test_an_exception_is_the_callers_own_and_a_failure_to_others(world: World) -> None:
    one, other = Report(world, error_ttl=600), Report(world, world.locks(), error_ttl=600)
    one.value = OSError("no paper")
    first = await one.in_the_air()
    waiting = [world.start(each.report(7)) for each in (one, other)]
    await world.in_line(world.client.lock("report:7"), 1)
    one.go = True
    with pytest.raises(OSError, match="no paper"):
        await first.result()
    for failing in (waiting[0].result, waiting[1].result, lambda: one.report(7), lambda: other.report(7)):
        with pytest.raises(FlightFailed, match=r"'report:7'.*OSError: no paper") as caught:
            await failing()
        assert (caught.value.error, caught.value.code) == ("builtins.OSError: no paper", "FLIGHT_FAILED")
    assert (one.computed, other.computed) == (1, 0)
    await other.report.invalidate(7)
    assert (await other.report(7))["number"] == 1


async def test_without_error_ttl_the_next_call_tries_again(world: World) -> None:
    job = Report(world, error_ttl=0)
    job.value = OSError("no paper")
    for _ in range(2):
        with pytest.raises(OSError, match="no paper"):
            await job.report(7)
    assert job.computed == 2


async def test_a_stale_value_hides_a_failure_and_nobody_tries_again_for_a_while(world: World) -> None:
    one, other = (Report(world, client, stale=600, error_ttl=600) for client in (world.client, world.locks()))
    await one.report(7)
    await one.report.expire(7)
    one.value = OSError("no paper")
    heard = world.listen()
    for each in (one, one, other):
        assert await each.report(7) == {"id": 7, "number": 1}
    assert (one.computed, other.computed) == (2, 0)
    [event] = [event for event in heard if isinstance(event, RefreshFailed)]
    assert (event.name, event.error, event.template) == ("report:7", "builtins.OSError: no paper", "report:{id}")


async def test_exceptions_that_are_answers_are_kept_and_raised_as_the_type_that_is_listed(world: World) -> None:
    one, other = (Report(world, client, negative={NotFound: 600}) for client in (world.client, world.locks()))
    one.value = NoSuchReport("report", 7)
    with pytest.raises(NoSuchReport):
        await one.report(7)
    for each in (one, other):
        with pytest.raises(NotFound) as caught:
            await each.report(7)
        assert type(caught.value) is NotFound
        assert caught.value.args == ("report", 7)
    assert (one.computed, other.computed) == (1, 0)
    assert isinstance((await one.report.peek(7)).value, NotFound)


async def test_what_the_codec_refuses_is_a_failure_to_all(world: World) -> None:
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (object(), {}, "not JSON serializable"),
        ("x" * 200, {"max_size": 100}, "202 bytes"),
        ("text", {"codec": "bytes"}, "takes bytes"),
        (float("nan"), {}, "not JSON compliant"),
    ]
    for number, (value, options, said) in enumerate(refused):
        job = Report(world, error_ttl=600, **options)
        job.value = value
        for _ in range(2):
            with pytest.raises(FlightFailed, match=said):
                await job.report(number)
        assert job.computed == 1


async def test_a_computation_that_only_makes_an_object_has_failed(world: World) -> None:
    async def makes() -> Any:
        return (each for each in "")

    flight = world.client.single_flight("report:1", ttl=60, error_ttl=0)
    for call in (flight(makes), partial(flight.get_or_create, makes)):
        with pytest.raises(TypeError, match="returned a generator under the lock"):
            await call()
    assert not (await world.client.inspect("report:1")).locked


async def test_codecs(world: World) -> None:
    import pickle

    for number, (codec, value) in enumerate([("bytes", b"\x00\xff"), (pickle, {1: {2}})]):
        job, other = Report(world, codec=codec), Report(world, world.locks(), codec=codec)
        job.value = value
        assert await job.report(number) == await other.report(number) == value
        assert other.computed == 0
    job = Report(world)  # reads JSON: what it cannot decode counts as absent
    assert (await job.report(0))["number"] == 1


async def test_an_invalidation_spoils_the_flight_in_the_air(world: World) -> None:
    one, other = Report(world), Report(world, world.locks())
    actor = await one.in_the_air()
    await other.report.invalidate(7)
    waiting = world.start(other.report(7))
    await world.in_line(world.client.lock("report:7"), 1)
    one.go = True
    assert (await actor.result())["number"] == 1, "the call that computed has its value"
    assert (await waiting.result())["number"] == 1
    assert other.computed == 1, "and nobody else does"
    assert (await one.report(7))["number"] == 1
    await one.report.invalidate(7)
    assert await one.report.peek(7) is None


async def test_a_leader_that_lost_its_lease_stores_nothing(world: World) -> None:
    world.forced_ms = 60_000
    one, other = Report(world), Report(world, world.locks())
    actor = await one.in_the_air()
    await world.client.force_release("report:7", reason="test")
    other.value = "newer"
    assert await other.report(7) == "newer"
    one.go = True
    assert (await actor.result())["number"] == 1
    assert await one.report(7) == "newer"


async def test_refresh_computes_now(world: World) -> None:
    job = Report(world)
    await job.report(7)
    assert (await job.report.refresh(7))["number"] == 2
    assert (await job.report(7))["number"] == 2


async def test_the_wait_ends_with_a_timeout(world: World) -> None:
    one = Report(world)
    actor = await one.in_the_air()
    for client in (world.client, world.locks()):
        with pytest.raises(LockTimeout, match="'report:7'"):
            await Report(world, client, wait="50ms").report(7)
    client = world.locks(profiles={"report:*": Profile(wait="50ms")})

    @client.single_flight("report:{id}", ttl=60)
    async def report(id: int) -> None:
        raise AssertionError("another computes")

    with pytest.raises(LockTimeout, match="'report:7'"):
        await report(7)
    one.go = True
    await actor.result()


async def test_without_the_server_it_is_computed_and_not_stored(world: World) -> None:
    for how in ("local", "open"):
        client = world.locks("redis://127.0.0.1:1", on_unavailable=how, connect_timeout=0.2)
        job = Report(world, client)
        assert [(await job.report(7))["number"] for _ in range(2)] == [1, 2]
        job.value = (1, 2)
        assert await job.report(8) == [1, 2], "as decoded, as with the server"
    with pytest.raises(holdtight.Unavailable):
        await Report(world, world.locks("redis://127.0.0.1:1", connect_timeout=0.2)).report(7)


async def test_wrong_options_show_at_decoration(world: World) -> None:
    for wrong in (
        {"ttl": 0}, {"ttl": "9999h"}, {"stale": -1}, {"refresh": "never"}, {"codec": "xml"}, {"max_size": 0},
        {"lease_ttl": 0}, {"ttl": "8000h", "stale": "8000h"}, {"error_ttl": "x"}, {"negative": {OSError: 0}},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\w"):
            world.client.single_flight("x", **{"ttl": 60, **wrong})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exception class"):
        world.client.single_flight("x", ttl=60, negative={BaseException: 1})  # type: ignore[dict-item]
