"""Requests that cross: polls and a shutdown, two polls of one owner at the limit, opening here and closing there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdtight.server import opened as opened_module
from holdtight.server import service as service_module
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
