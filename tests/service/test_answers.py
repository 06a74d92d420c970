"""What answers say: details in words of HTTP, pages that do not shift, labels that stay."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.service.calling import Caller, play

_numbers = itertools.count(1)


@pytest.fixture
def url() -> str:
    return f"memory://answers-{next(_numbers)}"


def test_details_are_in_words_of_http_and_show_no_owner(url: str) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        owner = (await one.get("lock", name="a"))["holders"][0]["owner"]
        busy = (await one.post("acquire", name="a", ttl=30, expect=423))["detail"]
        assert f"held by owner {owner}, " in busy
        x, y = [await one.post("acquire", name=name, ttl=30) for name in "xy"]
        waits = asyncio.create_task(
            one.client.post("/v1/acquire", json={"name": "x", "ttl": 30, "wait": 20, "holding": [y["lease"]]})
        )
        waits_too = asyncio.create_task(
            one.client.post("/v1/acquire", json={"name": "y", "ttl": 30, "wait": 20, "holding": [x["lease"]]})
        )
        await asyncio.wait([waits, waits_too], return_when=asyncio.FIRST_COMPLETED)
        await one.post("release", lease=x["lease"])
        await one.post("release", lease=y["lease"])
        (deadlock,) = [each.json()["detail"] for each in (await waits, await waits_too) if each.status_code == 409]
        assert "'x'" in deadlock
        await one.post("release", lease=held["lease"])
        lost = [(await one.post(verb, lease=held["lease"], expect=410))["detail"] for verb in ("release", "downgrade")]
        for detail in (busy, deadlock, *lost):
            for word in ("inspect", "reentrant", "multi(", "wait=", "check()", "...", "memory://"):
                assert word not in detail, detail

    play(url, scene)


def test_a_release_that_is_repeated_is_done_also_after_a_forced_one(url: str) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        await one.post("force-release", name="a", reason="stuck")
        assert (await one.post("release", lease=held["lease"], expect=410))["reason"] == "forced"
        assert await one.post("release", lease=held["lease"], again=True) == {"released": True}

    play(url, scene)


def test_a_downgrade_keeps_the_label(url: str) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30, label="nightly")
        await one.post("downgrade", lease=held["lease"])
        assert (await one.get("lock", name="a"))["holders"][0]["label"] == "nightly"

    play(url, scene)


def test_a_text_in_holding_that_is_no_lease_is_named_as_that(url: str) -> None:
    async def scene(one: Caller) -> None:
        refused = await one.post("acquire", name="a", ttl=30, holding=["htl_"], expect=400)
        assert refused["detail"].startswith("holding: ")

    play(url, scene)


@pytest.mark.parametrize("sort", ["age", "left"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_do_not_shift_while_time_passes(url: str, sort: str, order: str) -> None:
    async def scene(one: Caller) -> None:
        for at in range(12):
            await one.post("acquire", name=f"a{at}", ttl=100 + at * 7 % 12)
        seen: list[str] = []
        params: dict[str, Any] = {"sort": sort, "order": order, "limit": 5}
        for _ in range(6):
            found = await one.get("locks", **params)
            seen += [each["name"] for each in found["locks"]]
            if found["next"] is None:
                break
            params["cursor"] = found["next"]
            await asyncio.sleep(0.05)
            one.app.service.survey.stale()  # the next page is of a later reading
        assert sorted(seen) == sorted({f"a{at}" for at in range(12)})

    play(url, scene)


def test_sessions_come_in_pages(url: str) -> None:
    async def scene(one: Caller) -> None:
        for _ in range(7):
            await one.session()
        first = await one.get("sessions", limit=5)
        second = await one.get("sessions", limit=5, cursor=first["next"])
        assert (len(first["sessions"]), len(second["sessions"]), second["next"], second["total"]) == (5, 2, None, 7)
        assert len({each["id"] for each in first["sessions"] + second["sessions"]}) == 7
        by_name = (await one.get("locks", limit=1))["next"]
        assert by_name is None

    play(url, scene)
