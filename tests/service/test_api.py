"""The API: sessions, acquire with wait and stay, renew, release, downgrade, detach and adopt, looks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdtight import AsyncLocks
from tests.service.calling import Caller, caller, play
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")


def test_the_same_request_id_gets_the_same_grant_through_another_instance(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            first = await one.post("acquire", name="a", ttl=30, request="r")
            again = await two.post("acquire", name="a", ttl=30, request="r")
            assert (first["fence"], first["lease"]) == (again["fence"], again["lease"])
            assert first["state"] == "held"
            assert 29 < first["valid"] < 30
            other = await two.post("acquire", name="a", ttl=30, request="s", expect=423)
            assert other["code"] == "LOCK_TIMEOUT"
            assert (await two.post("release", lease=first["lease"])) == {"released": True}

    asyncio.run(main())


def test_valid_counts_from_the_moment_at_which_the_client_asked(place: Place) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        task = asyncio.create_task(one.post("acquire", name="a", ttl=30, wait=20))
        await asyncio.sleep(0.5)
        await one.post("release", lease=held["lease"])
        got = await task
        assert got["waited"] > 0.4
        assert got["valid"] == pytest.approx(30 * 0.99 - 0.002 + got["waited"], abs=0.1)

    play(place.url, scene)


def test_a_session_keeps_its_leases_and_tells_of_losses_until_they_are_released(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(label="job", host="web-1", pid=7)
        a = await one.post("acquire", name="a", session=session, request="1")
        b = await one.post("acquire", name="b", session=session, kind="shared")
        beat = await one.post("session/beat", session=session)
        assert {each["name"] for each in beat["leases"]} == {"a", "b"}
        shown = await one.get("lock", name="a")
        assert (shown["holders"][0]["host"], shown["holders"][0]["pid"]) == ("web-1", 7)
        await one.post("force-release", name="a", reason="test")
        for _ in range(2):
            beat = await one.post("session/beat", session=session)
            assert [(each["name"], each["reason"]) for each in beat["lost"]] == [("a", "forced")]
        gone = await one.post("release", lease=a["lease"], expect=410)
        assert (gone["code"], gone["reason"]) == ("UNLOCK_FAILED", "forced")
        assert (await one.post("session/beat", session=session))["lost"] == []
        assert await one.post("session/close", session=session) == {"released": 1}
        assert await one.post("session/close", session=session) == {"released": 0}
        assert (await one.post("session/beat", session=session, expect=410))["code"] == "SESSION_GONE"
        assert (await one.post("renew", lease=b["lease"], expect=410))["code"] == "WATCHDOG_RENEWAL_FAILED"

    play(place.url, scene)


def test_a_client_that_stops_beating_loses_its_locks_at_its_ttl(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=1)
        await one.post("acquire", name="a", session=session)
        started = asyncio.get_running_loop().time()
        got = await one.post("acquire", name="a", ttl=30, wait=10)
        assert 0.8 < asyncio.get_running_loop().time() - started < 6
        assert got["previous_expired"]
        async with asyncio.timeout(10):
            while (await one.get("sessions"))["total"]:  # its record was written a moment after the grant
                await asyncio.sleep(0.02)
        await one.post("session/beat", session=session, expect=410)

    play(place.url, scene)


def test_a_place_stays_between_two_polls_and_is_given_up_by_its_lease(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            held = await one.post("acquire", name="a", ttl=30)
            waits = await one.post("acquire", name="a", ttl=30, request="r", stay=True, wait=1, expect=202)
            assert (waits["state"], waits["position"], waits["keep"]) == ("waiting", 1, 5.0)
            again = await two.post("acquire", name="a", ttl=30, request="r", stay=True, expect=202)
            assert again["lease"] == waits["lease"]
            await one.post("renew", lease=waits["lease"], expect=400)
            await one.post("release", lease=held["lease"])
            got = await two.post("acquire", name="a", ttl=30, request="r", wait=5)
            assert got["fence"] > held["fence"]
            later = await one.post("acquire", name="a", ttl=30, request="later", stay=True, expect=202)
            await two.post("release", lease=later["lease"])
            assert (await one.get("lock", name="a"))["waiting"] == 0

    asyncio.run(main())


def test_the_older_of_two_polls_of_one_owner_ends(place: Place) -> None:
    async def scene(one: Caller) -> None:
        await one.post("acquire", name="a", ttl=30)
        older = asyncio.create_task(one.post("acquire", name="a", ttl=30, request="r", wait=20, expect=409))
        while not one.app.service.polls:
            await asyncio.sleep(0.01)
        newer = asyncio.create_task(one.post("acquire", name="a", ttl=30, request="r", wait=1, expect=423))
        assert (await older)["code"] == "SUPERSEDED"
        await newer

    play(place.url, scene)


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
@pytest.mark.parametrize("in_a_session", [False, True])
def test_giving_up_a_place_that_became_a_grant_ends_nothing_and_says_so(
    place: Place, kind: str, in_a_session: bool
) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            held = await one.post("acquire", name="a", ttl=30)
            how: dict[str, Any] = {"session": await one.session(ttl=30)} if in_a_session else {"ttl": 30}
            how |= {"name": "a", "kind": kind, "request": "r"}
            place_in_line = (await one.post("acquire", **how, stay=True, expect=202))["lease"]
            await one.post("release", lease=held["lease"])
            got = await two.post("acquire", **how, wait=20)  # and suppose that its answer gets lost
            for again in (False, True):
                refused = await one.post("release", lease=place_in_line, again=again, expect=409)
                assert (refused["code"], refused["name"]) == ("GRANTED", "a")
            if in_a_session:
                beat = await one.post("session/beat", session=how["session"])
                assert [each["fence"] for each in beat["leases"]] == [got["fence"]]
            again = await one.post("acquire", **how)  # as the answer says
            assert again["fence"] == got["fence"]
            await one.post("release", lease=again["lease"])
            assert await one.post("release", lease=place_in_line) == {"released": True}
            assert (await one.get("lock", name="a"))["holders"] == []

    asyncio.run(main())


def test_a_writer_is_downgraded_and_a_lock_is_handed_to_the_library_and_back(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session()
        held = await one.post("acquire", name="a", session=session)
        reading = await one.post("downgrade", lease=held["lease"])
        assert (reading["kind"], reading["fence"] > held["fence"]) == ("shared", True)
        assert (await one.post("downgrade", lease=held["lease"]))["fence"] == reading["fence"]
        assert (await one.post("session/beat", session=session))["leases"][0]["fence"] == reading["fence"]
        assert (await one.post("downgrade", lease=reading["lease"], expect=422))["code"] == "NOT_SUPPORTED"
        exclusive = await one.post("acquire", name="b", session=session)
        text = (await one.post("detach", lease=exclusive["lease"]))["text"]
        async with AsyncLocks(place.url) as other:
            lease = await other.adopt(text)
            assert lease.fence > exclusive["fence"]
            back = await lease.detach()
        got = await one.post("adopt", text=back, session=session, request="r")
        assert got["fence"] > lease.fence
        assert (await one.post("adopt", text=back, session=session, request="r"))["fence"] == got["fence"]
        assert (await one.post("adopt", text=back, ttl=30, expect=410))["code"] == "WATCHDOG_RENEWAL_FAILED"

    play(place.url, scene)


def test_permits_are_counted_and_kinds_do_not_mix(place: Place) -> None:
    async def scene(one: Caller) -> None:
        two = await one.post("acquire", name="s", ttl=30, kind="permits", n=2, permits=3)
        await one.post("acquire", name="s", ttl=30, kind="permits", n=2, permits=3, expect=423)
        await one.post("acquire", name="s", ttl=30, kind="permits", permits=3)
        assert (await one.post("acquire", name="s", ttl=30, expect=409))["code"] == "SCRIPT_ERROR"
        await one.post("release", lease=two["lease"])

    play(place.url, scene)


def test_a_deadlock_of_two_sessions_is_found_by_what_they_hold(place: Place) -> None:
    async def scene(one: Caller) -> None:
        first, second = await one.session(), await one.session()
        a = await one.post("acquire", name="a", session=first)
        b = await one.post("acquire", name="b", session=second)

        async def crosswise(name: str, session: str, held: str) -> int:
            body = {"name": name, "session": session, "wait": 20, "holding": [held], "request": name}
            answer = await one.client.post("/v1/acquire", json=body)
            if answer.status_code == 409:
                assert answer.json()["code"] == "DEADLOCK"
                await one.post("release", lease=held)
            return answer.status_code

        both = crosswise("b", first, a["lease"]), crosswise("a", second, b["lease"])
        assert sorted(await asyncio.gather(*both)) == [200, 409]

    play(place.url, scene)


def test_lists_are_sorted_filtered_and_paged(place: Place) -> None:
    async def scene(one: Caller) -> None:
        for at in range(7):
            await one.post("acquire", name=f"order:{at}", ttl=30)
        await one.post("acquire", name="other", ttl=30, kind="shared")
        await one.post("acquire", name="order:3", ttl=30, request="w", stay=True, expect=202)
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await one.get("locks", limit=3, sort="fence", order="asc", **cursor)
            seen += [row["name"] for row in page["locks"]]
            assert page["total"] == 8
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert seen == [f"order:{at}" for at in range(7)] + ["other"]
        assert [row["name"] for row in (await one.get("locks", q="OTH"))["locks"]] == ["other"]
        assert (await one.get("locks", kind="shared"))["total"] == 1
        assert [row["name"] for row in (await one.get("locks", state="waiting"))["locks"]] == ["order:3"]
        assert (await one.get("locks", prefix="order:"))["total"] == 7
        assert (await one.get("locks", sort="waiting", limit=1))["locks"][0]["name"] == "order:3"
        assert "cursor" in (await one.get("locks", cursor="nonsense", expect=400))["detail"]

    play(place.url, scene)


def test_a_leader_is_told_when_it_changes(place: Place) -> None:
    async def scene(one: Caller) -> None:
        assert await one.get("leader", name="a") == {"name": "a", "leader": None, "fence": 0}
        waits = asyncio.create_task(one.get("leader", name="a", after=0, wait="20s"))
        await asyncio.sleep(0.1)
        held = await one.post("acquire", name="a", ttl=30, label="me")
        found = await waits
        assert (found["fence"], found["leader"]["label"]) == (held["fence"], "me")

    play(place.url, scene)


def test_the_history_of_a_lock_is_kept_and_counted(place: Place) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="order:7", ttl=30)
        await one.post("release", lease=held["lease"])
        await one.app.service.history.write()
        shown = await one.get("lock", name="order:7")
        assert [event["kind"] for event in shown["history"]] == ["released", "granted"]
        assert (shown["wait"]["n"], shown["hold"]["n"], shown["template"]) == (1, 1, "order:#")
        assert sum(each["granted"] for each in (await one.get("stats"))["minutes"]) == 1

    play(place.url, scene)


def test_a_forced_release_is_audited_and_names_no_owner(place: Place) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        await one.post("acquire", name="a", ttl=30, request="w", stay=True, expect=202)
        owner = (await one.get("lock", name="a"))["holders"][0]["owner"]
        assert len(owner) == 12
        assert await one.post("force-release", name="a", reason="x", owner="0" * 12) == {"released": 0, "fence": None}
        done = await one.post("force-release", name="a", reason="it hangs", owner=owner)
        assert (done["released"], done["fence"] > held["fence"]) == (1, True)
        (record,) = (await one.get("audit"))["records"]
        assert (record["by"], record["reason"], record["pid"]) == ("tester", "it hangs", None)
        assert (record["holders"][0]["owner"], len(record["next"])) == (owner, 12)
        assert await one.post("force-release", name="free", reason="x") == {"released": 0, "fence": None}

    play(place.url, scene)


def test_a_session_is_closed_by_force(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(label="stuck")
        await one.post("acquire", name="a", session=session)
        (shown,) = (await one.get("sessions"))["sessions"]
        assert (shown["label"], shown["leases"], shown["names"]) == ("stuck", 1, ["a"])
        assert await one.post("force-close", id=shown["id"], reason="stuck") == {"released": 1}
        await one.post("session/beat", session=session, expect=410)
        assert (await one.get("sessions"))["total"] == 0

    play(place.url, scene)
