"""history.install: what programs do with the library, on the page of the service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdtight import AsyncLocks, Locks, LockTimeout, NotSupported, history
from holdtight.ops.history import Notes
from holdtight.server.minutes import summary
from holdtight.server.texts import LeaseText
from tests.service.calling import Caller, Tokens, caller, play, with_tokens
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
both = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")
one_server = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


@both
def test_what_the_library_does_is_shown_and_counted(place: Place) -> None:
    async def use_asyncio() -> None:
        async with AsyncLocks(place.url) as locks:
            history.install(locks)
            async with locks.lock("order:2"):
                pass

    with Locks(place.url) as locks:
        history.install(locks)
        history.install(locks)
        with locks.lock("order:1"), Locks(place.url) as other:
            history.install(other)
            with pytest.raises(LockTimeout):
                other.lock("order:1", wait=1).acquire()
        asyncio.run(use_asyncio())
        history.flush()

    async def look() -> None:
        async with caller(place.url) as one:
            shown = await one.get("lock", name="order:1")
            # Two clients know the server's time to a round trip: which came first is not certain.
            assert sorted(each["kind"] for each in shown["history"]) == ["granted", "released", "timed_out"]
            assert (shown["wait"]["n"], shown["hold"]["n"]) == (2, 2)  # those of order:2, too
            assert [each["kind"] for each in (await one.get("lock", name="order:2"))["history"]] == [
                "released",
                "granted",
            ]

    asyncio.run(look())


def test_it_is_refused_where_it_cannot_be() -> None:
    with Locks(["redis://h", "redis://i", "redis://j"]) as locks, pytest.raises(NotSupported, match="one server"):
        history.install(locks)
    with pytest.raises(TypeError, match="Locks"):
        history.install(object())  # type: ignore[arg-type]


def test_percentiles_lie_within_the_bucket_in_proportion() -> None:
    buckets = [0] * 26
    buckets[3], buckets[4] = 8, 2
    found = summary(buckets)
    assert found["n"] == 10
    assert found["p50"] == pytest.approx(0.004 + 0.004 * 5 / 8)
    assert found["p95"] == pytest.approx(0.008 + 0.008 * 1.5 / 2)
    assert summary(None)["p50"] is None


def test_new_templates_are_measured_however_many_there_were_before() -> None:
    notes = Notes()
    for minute in range(2):
        for at in range(150):
            notes.note("granted", minute * 60 + 1.0, f"{'ab'[minute]} {'x' * at}", None, None, waited=0.1)
    _, counts = notes.take()
    assert [sum(field.startswith("w:") for field in found) for found in counts.values()] == [100, 100]


@both
def test_a_grant_that_is_asked_for_again_counts_once_and_so_does_a_loss(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            held = await one.post("acquire", name="a", ttl=1, request="r")
            for _ in range(2):
                await one.post("acquire", name="a", ttl=1, request="r")
            await asyncio.sleep(1.05)  # older than what a hand-over takes: another instance knows, too
            await one.post("renew", lease=held["lease"], expect=410)
            await one.post("renew", lease=held["lease"], expect=410)
            after = await one.post("acquire", name="a", ttl=30)
            again = await one.post("acquire", name="b", ttl=30, request="r")
            await asyncio.sleep(1.1)
            await two.post("acquire", name="b", ttl=30, request="r")
            for each in (one, two):
                await each.app.service.history.write()
            shown = [each["kind"] for each in (await two.get("lock", name="a"))["history"]]
            assert (shown.count("granted"), shown.count("lost")) == (2, 1), shown
            assert [each["kind"] for each in (await two.get("lock", name="b"))["history"]] == ["granted"]
            assert after["fence"] < again["fence"]

    asyncio.run(main())


@both
def test_a_loss_that_two_have_seen_is_one_loss(place: Place) -> None:
    async def scene(one: Caller) -> None:
        first = await one.post("acquire", name="a", ttl=0.5)
        await one.post("acquire", name="a", ttl=30, wait=10)  # sees that the first has expired
        assert (await one.post("renew", lease=first["lease"], expect=410))["reason"] == "taken"
        await one.app.service.history.write()
        assert (await one.get("stats"))["lost"] == 1

    play(place.url, scene)


def test_the_timeline_goes_back_as_far_as_the_history() -> None:
    async def scene(one: Caller) -> None:
        history = one.app.service.history
        history.note("forced", "a", None, "test")
        for at in range(3000):
            history.note("timed_out", f"other:{at}", None, "test")
        await history.write()
        assert [each["kind"] for each in (await one.get("lock", name="a"))["history"]] == ["forced"]

    play("memory://timeline", scene)


@one_server
def test_events_of_a_server_that_was_emptied_are_gone(server: RunningServer) -> None:
    async def scene(one: Caller) -> None:
        history = one.app.service.history
        for _ in range(2):
            history.note("forced", "a", None, "test")
            await history.write()
            await asyncio.sleep(0.25)  # longer than what was read counts as fresh
            assert len((await one.get("lock", name="a"))["history"]) == 1
            server.flushall()

    play(server.url, scene)


def test_of_many_grants_in_a_second_some_are_events_and_all_are_counted() -> None:
    notes = Notes()
    for at in range(1000):
        notes.note("granted", 7.0, "a", at + 1, None)
        notes.note("lost", 7.0, "a", at + 1, None)
    events, counts = notes.take()
    assert [sum(each["kind"] == kind for each in events) for kind in ("granted", "lost")] == [200, 1000]
    assert (counts[0]["granted"], counts[0]["lost"]) == (1000, 1000)


@one_server
def test_the_history_has_the_last_twenty_thousand_events(server: RunningServer) -> None:
    async def scene(one: Caller) -> None:
        history = one.app.service.history
        for start in range(0, 24_000, 6000):
            for at in range(6000):
                history.note("timed_out", f"{start + at}", None, "test")
            await history.write()
        (newest,) = await history.last(1)
        assert newest[1]["name"] == "23999"
        assert 20_000 <= server.command("XLEN", "ht:history") < 20_500

    play(server.url, scene)


@one_server
def test_all_that_the_service_keeps_beside_locks_ends_by_itself(server: RunningServer, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.toml")
    token = tokens.add("one", "admin")

    async def main() -> None:
        async with with_tokens(server.url, tokens) as one:
            assert (await one.client.post("/login", json={"token": token})).status_code == 204
            one.client.headers["authorization"] = f"Bearer {token}"
            session = await one.session(ttl=60)
            await one.post("acquire", name="a", session=session, request="r")
            await one.post("acquire", name="a", ttl=60, request="w", stay=True, expect=202)
            await one.post("force-release", name="a", reason="a test")
            await one.app.service.history.write()
        async with caller(server.url) as one:  # mounted: its owners come from a secret that all instances share
            await one.post("acquire", name="b", ttl=60)
        left = {key: server.command("TTL", key) for key in server.keys("*")}
        for word in ("session", "login", "service", "history", "stats", "client"):
            assert any(key.startswith(f"ht:{word}") for key in left), (word, left)
        assert min(left.values()) >= 0, left
        assert [ttl for key, ttl in left.items() if ":login:" in key] == [pytest.approx(12 * 3600, abs=60)]

    asyncio.run(main())


@both
def test_what_is_repeated_is_told_once(place: Place) -> None:
    async def main() -> None:
        async with caller(place.url) as one, caller(place.url) as two:
            texts: dict[str, str] = {}
            adopted: dict[str, str] = {}
            for name in "ab":
                held = await one.post("acquire", name=name, ttl=30)
                for _ in range(2):
                    texts[name] = (await one.post("detach", lease=held["lease"]))["text"]
                for _ in range(2):
                    adopted[name] = (await one.post("adopt", text=texts[name], ttl=30, request="r"))["lease"]
            for _ in range(2):
                await one.post("downgrade", lease=adopted["a"])
            await asyncio.sleep(1.1)  # older than what a hand-over takes: another instance knows, too
            await two.post("downgrade", lease=adopted["a"])
            await two.post("adopt", text=texts["b"], ttl=30, request="r")
            for each in (one, two):
                await each.app.service.history.write()
            of_a, of_b = [(await one.get("lock", name=name))["history"] for name in "ab"]
            assert [each["kind"] for each in of_a] == ["downgraded", "adopted", "detached", "granted"]
            assert [each["kind"] for each in of_b] == ["adopted", "detached", "granted"]

    asyncio.run(main())


@both
def test_closing_a_session_releases_only_what_it_still_had(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=60)
        names = "forced", "expired", "held"
        leases = {name: (await one.post("acquire", name=name, session=session))["lease"] for name in names}
        await one.post("force-release", name="forced", reason="a test")
        await one.app.service.agent.release(LeaseText.read(leases["expired"]).held)  # as if its time had run out
        assert await one.post("session/close", session=session) == {"released": 1}
        await one.app.service.history.write()
        events = [event for _, event in await one.app.service.history.last(100)]
        assert [event["name"] for event in events if event["kind"] == "released"] == ["held"]

    play(place.url, scene)
