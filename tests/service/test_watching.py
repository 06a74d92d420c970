"""Those who watch: streams and polls of leaders. They end with their token, cost one look however many they are, and
say what they have missed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdtight.errors import LockError
from holdtight.server import service as service_module
from holdtight.server import stream as stream_module
from holdtight.server import tail as tail_module
from holdtight.server.stream import KINDS
from tests.service.calling import Caller, Tokens, play, with_tokens
from tests.service.listening import listening

_numbers = itertools.count(1)


@pytest.fixture
def url() -> str:
    return f"memory://watching-{next(_numbers)}"


def with_a_token(
    url: str, folder: Path, scene: Callable[[Caller, Tokens, str], Awaitable[None]], role: str = "admin"
) -> None:
    tokens = Tokens(folder / "tokens.toml")
    token = tokens.add("one", role)

    async def main() -> None:
        async with with_tokens(url, tokens) as one:
            await scene(one, tokens, token)

    asyncio.run(main())


async def note(one: Caller, number: int, kind: str = "timed_out") -> None:
    history = one.app.service.history
    for at in range(number):
        history.note(kind, f"noted:{at}", None, "test")
    await history.write()


def test_a_stream_ends_when_its_token_is_revoked(url: str, tmp_path: Path) -> None:
    async def scene(one: Caller, tokens: Tokens, token: str) -> None:
        async with listening(one, {"authorization": f"Bearer {token}"}) as seen:
            await note(one, 1)
            await seen.until(lambda: seen.of("timed_out"))
            assert tokens.file is not None
            tokens.path.write_text("", "utf-8")
            tokens.file.reload()
            await note(one, 1, "deadlock")
            await seen.until(lambda: seen.ended)
            assert seen.of("deadlock") == []

    with_a_token(url, tmp_path, scene)


def test_a_stream_ends_with_the_login_that_it_is_of(url: str, tmp_path: Path) -> None:
    async def scene(one: Caller, tokens: Tokens, token: str) -> None:
        cookie = (await one.client.post("/login", json={"token": token})).headers["set-cookie"].partition(";")[0]
        async with listening(one, {"cookie": cookie}) as seen:
            await note(one, 1)
            await seen.until(lambda: seen.of("timed_out"))
            csrf = (await one.client.get("/v1/me")).json()["csrf"]
            assert (await one.client.post("/logout", json={}, headers={"x-csrf-token": csrf})).status_code == 204
            await note(one, 1, "deadlock")
            await seen.until(lambda: seen.ended)
            assert seen.of("deadlock") == []

    with_a_token(url, tmp_path, scene)


def test_a_silent_stream_says_now_and_then_that_it_is_there_and_ends_with_its_token(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comment is what keeps proxies from closing it, and lets it notice that its token is revoked."""
    assert stream_module.COMMENT_EVERY == 15.0
    monkeypatch.setattr(stream_module, "COMMENT_EVERY", 0.1)
    monkeypatch.setattr(stream_module, "LOOK_EVERY", 0.05)

    async def scene(one: Caller, tokens: Tokens, token: str) -> None:
        async with listening(one, {"authorization": f"Bearer {token}"}, only="forced") as seen:
            await seen.until(lambda: seen.comments.count("still here") >= 3)
            assert seen.events == []
            assert tokens.file is not None
            tokens.path.write_text("", "utf-8")
            tokens.file.reload()
            await seen.until(lambda: seen.ended)

    with_a_token(url, tmp_path, scene)


def test_all_that_happens_to_locks_and_sessions_is_told_as_it_happens(url: str) -> None:
    async def crosswise(one: Caller, name: str, held: str) -> None:
        body = {"name": name, "ttl": 60, "wait": 20, "holding": [held], "request": "r"}
        answer = await one.client.post("/v1/acquire", json=body)
        assert answer.status_code in (200, 409)
        await one.post("release", lease=held)

    async def scene(one: Caller) -> None:
        everything = ",".join(kind for kind in KINDS if kind != "skipped")
        async with (
            listening(one, {}, name="a") as of_a,
            listening(one, {}, prefix="b", only="granted,released") as of_b,
            listening(one, {}, only=everything) as seen,
        ):
            await of_a.until(lambda: of_a.of("changed"))
            short = await one.post("acquire", name="a", ttl=0.2)
            await one.post("acquire", name="a", ttl=60, wait=10)  # after it has expired
            await one.post("renew", lease=short["lease"], expect=410)
            await one.post("acquire", name="a", ttl=60, wait=1, expect=423)
            await one.post("force-release", name="a", reason="a test")
            session = await one.session()
            b = await one.post("acquire", name="b1", session=session)
            text = (await one.post("detach", lease=b["lease"]))["text"]
            b = await one.post("adopt", text=text, ttl=60)
            b = await one.post("downgrade", lease=b["lease"])
            await one.post("release", lease=b["lease"])
            await one.post("session/close", session=session)
            x, y = [(await one.post("acquire", name=name, ttl=60))["lease"] for name in "xy"]
            await asyncio.gather(crosswise(one, "x", y), crosswise(one, "y", x))
            told = {"tick", *KINDS} - {"skipped", "changed"}
            await seen.until(lambda: told <= {kind for kind, _ in seen.events})
            await of_a.until(lambda: of_a.of("forced"))
            await of_b.until(lambda: of_b.of("released"))
        for kind, event in seen.events:
            expected = {"rev", "at", "held", "waiting"} if kind == "tick" else {"kind", "at", "name", "fence", "by"}
            assert expected <= event.keys(), kind
        assert {event["name"] for kind, event in of_a.events if kind != "tick"} == {"a"}
        assert of_a.of("changed")[0]["leader"] is None
        assert [(kind, event["name"]) for kind, event in of_b.events] == [("granted", "b1"), ("released", "b1")]

    play(url, scene)


def test_a_poll_for_another_leader_ends_with_its_wait(url: str) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=60)
        begun = asyncio.get_running_loop().time()
        found = await one.get("leader", name="a", after=held["fence"], wait="400ms")
        assert found["fence"] == held["fence"]
        assert 0.4 <= asyncio.get_running_loop().time() - begun < 10
        assert (await one.get("leader", name="a", after=held["fence"] - 1, wait=50))["fence"] == held["fence"]

    play(url, scene)


def test_all_locks_are_read_only_while_somebody_looks_and_once_for_all_who_do(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not more often than every second, in no more than a tenth of the time."""

    async def scene(one: Caller) -> None:
        readings, slow = 0, 0.0
        list_all = one.locks.list

        async def counted() -> Any:
            nonlocal readings
            readings += 1
            await asyncio.sleep(slow)
            async for info in list_all():
                yield info

        monkeypatch.setattr(one.locks, "list", counted)
        held = await one.post("acquire", name="a", ttl=60)
        await one.post("renew", lease=held["lease"])
        await asyncio.sleep(1.1)
        assert readings == 0
        slow = 0.2
        await asyncio.gather(*[one.get(look) for look in ("locks", "stats", "graph") for _ in range(20)])
        assert readings == 1
        end = asyncio.get_running_loop().time() + 1.5
        while asyncio.get_running_loop().time() < end:
            await one.get("locks")
        assert readings == 1  # it took 0.2 s: the next one is due after two
        slow = 0.0
        async with asyncio.timeout(20):
            while readings == 1:
                await one.get("locks")
                await asyncio.sleep(0.05)

    play(url, scene)


def test_a_head_of_the_stream_is_answered_and_opens_none(url: str) -> None:
    async def scene(one: Caller) -> None:
        async with asyncio.timeout(10):
            answer = await one.client.head("/v1/events")
        assert (answer.status_code, answer.content) == (200, b"")
        assert not one.app.service.streams

    play(url, scene)


def test_only_names_kinds_of_events(url: str) -> None:
    async def scene(one: Caller) -> None:
        async with asyncio.timeout(10):
            answer = await one.client.get("/v1/events?only=granted,nonsense")
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("only: ")

    play(url, scene)


def test_a_reader_far_behind_catches_up(url: str) -> None:
    async def scene(one: Caller) -> None:
        await note(one, 5000)
        async with listening(one, {"last-event-id": "1-0"}, only="timed_out,forced") as seen:
            await note(one, 1, "forced")
            await seen.until(lambda: seen.of("forced"))
            assert len(seen.of("timed_out")) == 5000
            assert asyncio.get_running_loop().time() < seen.begun + 4  # and not 500 every half second

    play(url, scene)


def test_a_reader_too_far_behind_is_told_what_it_missed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MOST", 600)

    async def scene(one: Caller) -> None:
        await note(one, 2000)
        async with listening(one, {"last-event-id": "1-0"}, only="timed_out") as seen:
            await seen.until(lambda: len(seen.of("timed_out")) >= 600)
            assert seen.events[0][0] == "skipped"
            assert seen.of("skipped")[0]["after"] == "1-0"
            assert seen.of("timed_out")[-1]["name"] == "noted:1999"
            assert len(seen.of("skipped")) == 1

    play(url, scene)


def test_polls_for_a_leader_share_their_looks_and_count_as_waiting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MOST_WAITS", 30)

    async def scene(one: Caller) -> None:
        service = one.app.service
        looks = 0
        inspect = service.locks.inspect

        async def counted(name: str) -> Any:
            nonlocal looks
            looks += 1
            return await inspect(name)

        monkeypatch.setattr(service.locks, "inspect", counted)
        polls = [asyncio.create_task(one.get("leader", name="a", after=0, wait=50)) for _ in range(30)]
        async with asyncio.timeout(10):
            while service.waits.total() < 30:
                await asyncio.sleep(0.01)
        await one.get("leader", name="a", after=0, wait=1, expect=429)
        await one.get("leader", name="a")
        first = looks
        await asyncio.sleep(1.0)
        assert looks - first < 12
        held = await one.post("acquire", name="a", ttl=30)
        assert {each["fence"] for each in await asyncio.gather(*polls)} == {held["fence"]}
        assert not service.waits

    play(url, scene)


def test_what_could_not_be_read_is_not_empty(tmp_path: Path) -> None:
    async def scene(one: Caller, tokens: Tokens, token: str) -> None:
        headers = {"authorization": f"Bearer {token}"}
        for _ in range(3):
            for look in ("locks", "graph", "stats", "sessions"):
                answer = await one.client.get(f"/v1/{look}", headers=headers)
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (503, "CONNECTION_LOST")
                assert problem["detail"] == "the lock server does not answer."  # it is about no lock
                assert "name" not in problem

    with_a_token("redis://127.0.0.1:1", tmp_path, scene)


def test_what_could_not_be_read_is_read_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(one: Caller) -> None:
        survey = one.app.service.survey
        with monkeypatch.context() as broken:

            def fails() -> Any:
                raise LockError("down")

            broken.setattr(one.locks, "list", fails)
            for _ in range(2):
                await one.get("locks", expect=500)
        survey.stale()
        assert (await one.get("locks"))["total"] == 0

    play(url, scene)
