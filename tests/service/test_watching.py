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
from holdtight.server import tail as tail_module
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
                assert (answer.status_code, answer.json()["code"]) == (503, "CONNECTION_LOST")

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
