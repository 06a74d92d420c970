"""Sessions of the lock service when two instances, or two requests, are at work for one owner at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdtight.aio.agent import Taken
from holdtight.base.plan import Step
from holdtight.base.values import Claim, Kind
from holdtight.server.texts import SessionText, derive
from holdtight.stores.boundary import SessionEntry
from holdtight.stores.redis.keys import client_record
from holdtight.stores.redis.resp import command
from tests.service.calling import Caller, caller, play
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")


async def until_waiting(one: Caller, name: str) -> None:
    async with asyncio.timeout(20):
        while not (await one.get("lock", name=name))["waiting"]:
            await asyncio.sleep(0.01)


def entry(state: str, fence: int, owner: bytes = b"o" * 24) -> SessionEntry:
    return SessionEntry(owner, state, Kind.EXCLUSIVE, 1, fence, "name")


def test_an_open_poll_keeps_its_session_but_none_of_its_leases(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=3)
        await one.post("acquire", name="mine", session=session)
        other = await one.post("acquire", name="theirs", ttl=60)
        poll = asyncio.create_task(one.post("acquire", name="theirs", session=session, wait=40))
        await one.post("acquire", name="mine", ttl=60, wait=40)  # free at the end of the ttl, poll or no poll
        await asyncio.sleep(1)  # and the session has no beat of its client either
        await one.post("release", lease=other["lease"])
        assert (await poll)["state"] == "held"
        beat = await one.post("session/beat", session=session)
        assert [each["name"] for each in beat["leases"]] == ["theirs"]
        assert [each["name"] for each in beat["lost"]] == ["mine"]

    play(place.url, scene)


def test_a_poll_of_a_session_that_is_closed_ends_and_leaves_the_line(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            await one.post("acquire", name="a", ttl=60)
            session = await one.session(ttl=3)
            poll = asyncio.create_task(one.post("acquire", name="a", session=session, wait=40, expect=410))
            await until_waiting(one, "a")
            await two.post("session/close", session=session)
            assert (await poll)["code"] == "SESSION_GONE"
            assert (await one.get("lock", name="a"))["waiting"] == 0

    asyncio.run(main())


def test_a_grant_whose_session_has_gone_meanwhile_is_given_back(place: Place) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=60)
        session = await one.session(ttl=60)  # the poll looks after it twenty seconds from now
        poll = asyncio.create_task(one.post("acquire", name="a", session=session, wait=40, expect=410))
        await until_waiting(one, "a")
        service = one.app.service
        await service.ask(service.sessions.close_step(SessionText.read(session).id))
        await one.post("release", lease=held["lease"])
        assert (await poll)["code"] == "SESSION_GONE"
        assert (await one.get("lock", name="a"))["holders"] == []

    play(place.url, scene)


def test_closing_a_session_ends_a_grant_of_which_it_was_never_told(place: Place) -> None:
    """As an instance leaves it that is killed after the grant."""

    async def scene(one: Caller) -> None:
        text = await one.session(ttl=60)
        session, service = SessionText.read(text), one.app.service
        owner = derive(session.id, session.secret, Kind.EXCLUSIVE, 1, "name", "r")
        steps = service.sessions
        await service.ask(steps.enrol_step(session.id, session.proof("tester"), entry("w", 0, owner), 9))
        assert isinstance(await service.agent.take(Claim("name", 60.0, None), owner), Taken)
        await one.post("session/close", session=text)
        assert (await one.get("lock", name="name"))["holders"] == []

    play(place.url, scene)


def test_a_late_strike_and_a_late_loss_leave_a_later_grant_alone(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = SessionText.read(await one.session(ttl=60))
        service, proof = one.app.service, session.proof("tester")
        steps: Any = service.sessions

        async def entries() -> list[SessionEntry]:
            found, _ = await service.ask_all(steps.look_steps(session.id))
            return list(found.entries)

        await service.ask(steps.enrol_step(session.id, proof, entry("w", 0), 9))
        await service.ask(steps.enrol_step(session.id, proof, entry("h", 7), 0))
        await service.ask(steps.enrol_step(session.id, proof, entry("w", 0), 9))  # it asks again
        assert await entries() == [entry("h", 7)]
        await service.ask(steps.strike_step(session.id, b"o" * 24))  # a poll elsewhere has ended
        await service.ask(steps.strike_step(session.id, b"o" * 24, 6))  # the release of a grant before
        await service.ask(steps.enrol_step(session.id, proof, entry("e", 6), 0))  # which a beat has found lost
        assert await entries() == [entry("h", 7)]
        await service.ask(steps.enrol_step(session.id, proof, entry("e", 7), 0))
        assert await entries() == [entry("e", 7)]
        await service.ask(steps.strike_step(session.id, b"o" * 24, 7))
        assert await entries() == []
        await service.ask(steps.enrol_step(session.id, proof, entry("w", 0), 9))
        await service.ask(steps.strike_step(session.id, b"o" * 24))
        assert await entries() == []

    play(place.url, scene)


def test_who_waits_and_holds_is_known_as_long_as_its_session_lives(place: Place) -> None:
    """Also without any beat: here by polls that come one after the other."""

    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=60)
        session = await one.session(ttl=3, host="web-1", pid=7)
        how: dict[str, Any] = {"name": "a", "session": session, "request": "r", "stay": True}
        for _ in range(4):
            await one.post("acquire", **how, wait=0.9, expect=202)  # shorter than the upkeep's interval
        (waiter,) = (await one.get("lock", name="a"))["waiters"]
        assert (waiter["host"], waiter["pid"]) == ("web-1", 7)
        await one.post("release", lease=held["lease"])
        await one.post("acquire", **how, wait=20)
        (holder,) = (await one.get("lock", name="a"))["holders"]
        assert (holder["host"], holder["pid"]) == ("web-1", 7)

    play(place.url, scene)


def test_a_beat_writes_the_record_of_its_client_again(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=60, host="web-1", pid=7)
        await one.post("acquire", name="a", session=session)
        record = command("DEL", client_record("ht", SessionText.read(session).id))
        assert await one.app.service.ask(Step(record, None, lambda reply, sent: reply, patience=2.0)) == 1
        assert (await one.get("lock", name="a"))["holders"][0]["host"] is None
        await one.post("session/beat", session=session)
        (holder,) = (await one.get("lock", name="a"))["holders"]
        assert (holder["host"], holder["pid"]) == ("web-1", 7)

    play(place.url, scene)


def test_what_is_given_back_while_a_beat_is_under_way_is_not_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(one: Caller) -> None:
        session, service = await one.session(ttl=60), one.app.service
        how: dict[str, Any] = {"session": session, "request": "r"}
        leases = {name: (await one.post("acquire", name=name, **how))["lease"] for name in "abcd"}
        renew_all = service.agent.renew_all

        async def late(held: Any, ttl: float) -> Any:
            """The beat has read what it renews, and then comes all this."""
            monkeypatch.undo()
            await one.post("release", lease=leases["a"])
            await one.post("downgrade", lease=leases["b"])
            await one.post("release", lease=leases["c"])
            await one.post("acquire", name="c", ttl=60)
            await one.post("acquire", name="c", **how, stay=True, expect=202)
            await one.post("force-release", name="d", reason="a test")
            return await renew_all(held, ttl)

        monkeypatch.setattr(service.agent, "renew_all", late)
        beat = await one.post("session/beat", session=session)
        assert [(each["name"], each["reason"]) for each in beat["lost"]] == [("d", "forced")]
        assert [beat["leases"], beat["unknown"]] == [[], []]
        beat = await one.post("session/beat", session=session)
        assert [(each["name"], each["kind"]) for each in beat["leases"]] == [("b", "shared")]
        assert [each["name"] for each in beat["lost"]] == ["d"]
        (shown,) = (await one.get("sessions"))["sessions"]
        assert shown["waiting"] == 1  # for c
        await service.history.write()
        events = [event for _, event in await service.history.last(100)]
        assert [event["name"] for event in events if event["kind"] == "lost"] == ["d"]

    play(place.url, scene)


def test_a_beat_that_crosses_the_end_of_its_session_tells_of_no_loss(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(one: Caller) -> None:
        session, service = await one.session(ttl=60), one.app.service
        await one.post("acquire", name="a", session=session)
        renew_all = service.agent.renew_all

        async def late(held: Any, ttl: float) -> Any:
            monkeypatch.undo()
            await one.post("session/close", session=session)
            return await renew_all(held, ttl)

        monkeypatch.setattr(service.agent, "renew_all", late)
        assert (await one.post("session/beat", session=session, expect=410))["code"] == "SESSION_GONE"
        await service.history.write()
        assert "lost" not in [event["kind"] for _, event in await service.history.last(100)]

    play(place.url, scene)
