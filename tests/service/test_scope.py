"""What a token that is bound to prefixes learns of names that are not its own: nothing, by no path."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdtight.server.principal import Principal
from holdtight.stores.redis.keys import main_key
from tests.service.calling import Caller, Tokens, with_tokens
from tests.service.listening import listening
from tests.support.servers import FLAVOURS, RunningServer

_numbers = itertools.count(1)


def as_bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Visitor:
    def __init__(self, one: Caller, token: str) -> None:
        self._one = one
        self.headers = as_bearer(token)

    async def post(self, verb: str, /, *, expect: int = 200, **body: Any) -> Any:
        return await self._one.post(verb, expect=expect, headers=self.headers, **body)

    async def get(self, look: str, /, *, expect: int = 200, **params: Any) -> Any:
        answer = await self._one.client.get(f"/v1/{look}", params=params, headers=self.headers)
        assert answer.status_code == expect, answer.text
        return answer.json()


Scene = Callable[[Caller, Visitor, Visitor], Awaitable[None]]


def play(folder: Path, scene: Scene, url: str = "", prefix: str = "team1:") -> None:
    """With an admin of all names, and one of `prefix`."""
    tokens = Tokens(folder / "tokens.toml")
    whole, bound = tokens.add("whole", "admin"), tokens.add("bound", "admin", prefix)

    async def main() -> None:
        async with with_tokens(url or f"memory://scope-{next(_numbers)}", tokens) as one:
            await scene(one, Visitor(one, whole), Visitor(one, bound))

    asyncio.run(main())


@pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")
def test_what_doctor_saw_is_for_admins_of_all_names(server: RunningServer, tmp_path: Path) -> None:
    server.command("SET", main_key("ht", "theirs:secret"), "nonsense")

    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        assert "theirs:secret" in str(await whole.get("nodes"))
        shown = await bound.get("nodes")
        assert "FOREIGN_KEY" in str(shown)
        assert "theirs" not in str(shown)
        assert "seen" not in str(shown)

    play(tmp_path, scene, server.url)


def test_times_of_a_template_that_others_share_are_not_shown(tmp_path: Path) -> None:
    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        for _ in range(25):
            held = await whole.post("acquire", name="team2:a", ttl=30)
            await whole.post("release", lease=held["lease"])
        await one.app.service.history.write()
        assert (await whole.get("lock", name="team1:a"))["hold"]["n"] == 25
        shown = await bound.get("lock", name="team1:a")
        assert (shown["hold"]["n"], shown["wait"]["n"], shown["suggested_ttl"]) == (0, 0, None)
        assert not any(shown["hold"]["buckets"])
        assert (await bound.get("stats"))["templates"] == []

    play(tmp_path, scene)


def test_times_of_a_template_that_is_all_its_own_are_shown(tmp_path: Path) -> None:
    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        for at in range(25):
            held = await whole.post("acquire", name=f"mine:{at}", ttl=30)
            await whole.post("release", lease=held["lease"])
        await one.app.service.history.write()
        assert (await bound.get("lock", name="mine:7"))["hold"]["n"] == 25
        assert [each["template"] for each in (await bound.get("stats"))["templates"]] == ["mine:#"]

    play(tmp_path, scene, prefix="mine:")


def test_a_number_sign_in_a_prefix_is_no_digit() -> None:
    bound = Principal("x", prefixes=("team#:",))
    assert not bound.sees_template("team#:a")  # also that of team7:a
    assert Principal("x").sees_template("team#:a")


def test_events_of_sessions_of_others_and_changes_of_others_are_not_told(tmp_path: Path) -> None:
    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        async with listening(one, bound.headers) as seen, listening(one, whole.headers) as all_seen:
            await seen.until(lambda: seen.of("tick"))
            await whole.post("session/open", expect=201)
            await whole.post("acquire", name="theirs", ttl=30)
            await all_seen.until(
                lambda: all_seen.of("session_opened") and any(each["held"] for each in all_seen.of("tick"))
            )
            assert len(seen.of("tick")) == 1
            await bound.post("session/open", expect=201)
            await bound.post("acquire", name="team1:a", ttl=30)
            await seen.until(lambda: seen.of("granted") and len(seen.of("tick")) == 2)
            assert [each["by"] for each in seen.of("session_opened")] == ["bound"]
            assert [each["rev"] for each in seen.of("tick")] == [1, 2]
            assert "theirs" not in str(seen.events)

    play(tmp_path, scene)


def test_a_session_is_closed_by_force_only_if_all_of_it_is_in_scope(tmp_path: Path) -> None:
    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        session = await whole.post("session/open", expect=201)
        refused = await bound.post("force-close", id=session["id"], reason="x", expect=403)
        await whole.post("acquire", name="theirs", session=session["session"])
        await whole.post("acquire", name="team1:a", session=session["session"])
        refused = await bound.post("force-close", id=session["id"], reason="x", expect=403)
        assert "theirs" not in str(refused)
        other = await whole.post("session/open", expect=201)
        await whole.post("acquire", name="team1:b", session=other["session"])
        assert (await bound.post("force-close", id=other["id"], reason="x"))["released"] == 1
        own = await bound.post("session/open", expect=201)
        await bound.post("force-close", id=own["id"], reason="x")

    play(tmp_path, scene)


def test_metrics_and_leases_named_as_held_are_bounded_too(tmp_path: Path) -> None:
    async def scene(one: Caller, whole: Visitor, bound: Visitor) -> None:
        assert (await one.client.get("/metrics", headers=whole.headers)).status_code == 200
        assert (await one.client.get("/metrics", headers=bound.headers)).status_code == 403
        theirs = await whole.post("acquire", name="theirs", ttl=30)
        await bound.post("acquire", name="team1:a", ttl=30, holding=[theirs["lease"]], expect=403)

    play(tmp_path, scene)
