"""Requests that cross: polls and a shutdown, two polls of one owner at the limit, opening here and closing there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdtight.errors import Unavailable
from holdtight.server import opened as opened_module
from holdtight.server import service as service_module
from holdtight.server.texts import SessionText
from tests.service.calling import Caller, caller, play
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")


def test_sessions_that_were_closed_elsewhere_do_not_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_module, "MOST_SESSIONS", 5)

    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            for _ in range(4):
                session = await one.session(ttl="1h")
                await two.post("session/close", session=session)
            opened = [await one.post("session/open", expect=201, ttl="1h") for _ in range(5)]
            assert (await one.post("session/open", expect=429))["code"] == "LIMIT_REACHED"
            await one.post("force-close", id=opened[0]["id"], reason="a test")
            await one.session()

    asyncio.run(main())


def test_a_poll_that_came_before_the_shutdown_is_answered_and_keeps_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            await two.post("acquire", name="a", ttl=60)
            session = await two.session(ttl=60)
            how: dict[str, Any] = {"name": "a", "session": session, "request": "r", "stay": True}
            first = await one.post("acquire", **how, wait=1, expect=202)
            await two.post("acquire", name="a", ttl=60, request="behind", stay=True, expect=202)
            service, asked, drained = one.app.service, asyncio.Event(), asyncio.Event()
            ask = service.ask

            async def slow(step: Any) -> Any:
                asked.set()
                await drained.wait()
                return await ask(step)

            with monkeypatch.context() as late:
                late.setattr(service, "ask", slow)
                poll = asyncio.create_task(one.client.post("/v1/acquire", json={**how, "wait": 20}))
                await asked.wait()
            await service.drain()
            drained.set()
            answer = await poll
            assert (answer.status_code, answer.json()["code"]) == (503, "SHUTTING_DOWN")
            again = await two.post("acquire", **how, expect=202)
            assert (again["lease"], again["position"]) == (first["lease"], 1)

    asyncio.run(main())


def test_a_newer_poll_takes_the_room_of_the_older(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MOST_WAITS", 2)

    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=60)
        other = asyncio.create_task(one.post("acquire", name="a", ttl=60, request="o", wait=20))
        older = asyncio.create_task(one.post("acquire", name="a", ttl=60, request="r", wait=20, expect=409))
        async with asyncio.timeout(10):
            while one.app.service.waits.total() < 2:
                await asyncio.sleep(0.01)
        newer = asyncio.create_task(one.post("acquire", name="a", ttl=60, request="r", wait=20))
        assert (await older)["code"] == "SUPERSEDED"
        assert (await one.post("acquire", name="a", ttl=60, request="s", wait=1, expect=429))["code"] == "LIMIT_REACHED"
        await one.post("release", lease=held["lease"])
        for _ in range(2):
            done, _rest = await asyncio.wait([other, newer], return_when=asyncio.FIRST_COMPLETED, timeout=10)
            for task in done:
                await one.post("release", lease=task.result()["lease"])
            other, newer = (other, other) if newer in done else (newer, newer)
        assert not one.app.service.waits

    play(place.url, scene)


async def names_in(one: Caller, session: str) -> list[str]:
    """What the session asks for, or holds."""
    service = one.app.service
    found, _ = await service.ask_all(service.sessions.look_steps(SessionText.read(session).id))
    return sorted(each.name for each in found.entries)


async def until_names_are(one: Caller, session: str, names: list[str]) -> None:
    async with asyncio.timeout(10):
        while await names_in(one, session) != names:
            await asyncio.sleep(0.01)


async def until_waiting(one: Caller, number: int) -> None:
    async with asyncio.timeout(10):
        while len(one.app.service.polls) < number:
            await asyncio.sleep(0.01)


async def held_by_another(one: Caller, names: str) -> None:
    for name in names:
        await one.post("acquire", name=name, ttl=60)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_poll_for_which_there_is_no_room_leaves_nothing_in_its_session(
    place: Place, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(service_module, "MOST_WAITS", 2)

    async def scene(one: Caller) -> None:
        await held_by_another(one, "abcdef")
        session = await one.session(ttl=60)

        async def ask(name: str) -> int:
            body = {"name": name, "session": session, "request": "r", "wait": 40}
            return (await one.client.post("/v1/acquire", json=body)).status_code

        polls = [asyncio.create_task(ask(each)) for each in ("abcdef" if at_once else "ab")]
        await until_waiting(one, 2)
        if not at_once:
            polls += [asyncio.create_task(ask(each)) for each in "cdef"]
        async with asyncio.timeout(10):
            while sum(each.done() for each in polls) < 4:
                await asyncio.sleep(0.01)
        assert {each.result() for each in polls if each.done()} == {429}
        await until_names_are(
            one, session, [name for name, each in zip("abcdef", polls, strict=True) if not each.done()]
        )
        for each in polls:
            each.cancel()
        await asyncio.gather(*polls, return_exceptions=True)

    play(place.url, scene)


def test_a_shutdown_strikes_off_only_who_cannot_ask_again(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            await held_by_another(two, "ab")
            session = await two.session(ttl=60)
            polls = [
                asyncio.create_task(one.post("acquire", name=name, session=session, request=id_, wait=40, expect=503))
                for name, id_ in (("a", "r"), ("b", None))
            ]
            await until_waiting(one, 2)
            assert await names_in(two, session) == ["a", "b"]
            await one.app.service.drain()
            assert {(await each)["code"] for each in polls} == {"SHUTTING_DOWN"}
            await until_names_are(two, session, ["a"])

    asyncio.run(main())


def test_a_poll_that_a_newer_one_ends_leaves_the_entry_of_both(place: Place) -> None:
    async def scene(one: Caller) -> None:
        await held_by_another(one, "a")
        session = await one.session(ttl=60)
        how: dict[str, Any] = {"name": "a", "session": session, "request": "r", "wait": 40}
        older = asyncio.create_task(one.post("acquire", **how, expect=409))
        await until_waiting(one, 1)
        newer = asyncio.create_task(one.client.post("/v1/acquire", json=how))
        assert (await older)["code"] == "SUPERSEDED"
        for _ in range(3):  # a strike would be under way by now
            assert await names_in(one, session) == ["a"]
        newer.cancel()
        await asyncio.gather(newer, return_exceptions=True)

    play(place.url, scene)


@pytest.mark.parametrize("how", ["now and then", "after a failure"])
def test_instances_agree_on_owners_after_the_lock_server_came_back_empty(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Mounted, so that owners come from a secret on the lock server."""
    if how == "now and then":
        monkeypatch.setattr(service_module, "SECRET_EVERY", 0.0)

    async def main() -> None:
        async with caller(place.url) as one:
            await one.post("acquire", name="a", ttl=30, request="r")
            place.flushall()
            if how == "after a failure":
                with monkeypatch.context() as away:

                    async def fails(*_: Any) -> Any:
                        raise Unavailable.because("a", "the lock server", "it is away")

                    away.setattr(one.app.service, "acquire", fails)
                    await one.post("acquire", name="a", ttl=30, request="r", expect=503)
            async with caller(place.url) as two:
                first = await two.post("acquire", name="b", ttl=30, request="r")
                again = await one.post("acquire", name="b", ttl=30, request="r")
                assert (again["fence"], again["lease"]) == (first["fence"], first["lease"])

    asyncio.run(main())
