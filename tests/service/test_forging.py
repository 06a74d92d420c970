"""Texts that clients keep, changed by them: what they may say is what they could ask for anyway."""

from __future__ import annotations

import asyncio
import base64
import itertools
from pathlib import Path
from typing import Any

import pytest

from holdtight.aio.agent import Held
from holdtight.base.values import Kind
from holdtight.grants.lease import Detached
from holdtight.server.texts import LeaseText
from tests.service.calling import Caller, Tokens, play, with_tokens
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

Place = RunningServer | MemoryStore
both = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")
_numbers = itertools.count(1)


@pytest.fixture
def url() -> str:
    return f"memory://forging-{next(_numbers)}"


def retold(text: str, ttl: float) -> str:
    """The same lease with another ttl, as somebody could write it who knows the layout."""
    raw = bytearray(base64.urlsafe_b64decode(text[4:] + "=" * (-len(text[4:]) % 4)))
    known = LeaseText.read(text)
    at = raw.index(round(known.ttl * 1000).to_bytes(4, "big"))
    raw[at : at + 4] = round(ttl * 1000).to_bytes(4, "big")
    return "htl_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.mark.parametrize("ttl", [4_000_000, 7 * 24 * 3600 + 1, 0.099, 0.0])
def test_a_ttl_out_of_range_is_no_lease(url: str, ttl: float) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        for verb in ("renew", "release", "downgrade", "detach"):
            assert (await one.post(verb, lease=retold(held["lease"], ttl), expect=400))["detail"].startswith("lease: ")
        assert (await one.get("lock", name="a"))["holders"][0]["left"] <= 30

    play(url, scene)


@both
def test_a_lease_of_a_session_has_the_ttl_of_its_session_whatever_it_says(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=20)
        lease = retold((await one.post("acquire", name="a", session=session))["lease"], 3600)
        assert (await one.post("renew", lease=lease))["ttl"] == 20
        await one.post("renew", lease=lease, ttl=3600, expect=400)
        assert (await one.post("downgrade", lease=lease))["ttl"] == 20
        assert (await one.get("lock", name="a"))["holders"][0]["left"] <= 20

    play(place.url, scene)


@both
def test_every_changed_bit_of_a_session_s_lease_leaves_it_with_its_session(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=20)
        text = (await one.post("acquire", name="a", session=session))["lease"]
        raw = base64.urlsafe_b64decode(text[4:] + "=" * (-len(text[4:]) % 4))
        for bit in range(8 * 19):  # all that stands before the secret part of the owner
            changed = bytearray(raw)
            changed[bit // 8] ^= 1 << bit % 8
            forged = "htl_" + base64.urlsafe_b64encode(changed).decode().rstrip("=")
            answer = await one.client.post("/v1/renew", json={"lease": forged})
            assert answer.status_code in (400, 410) or answer.json()["ttl"] == 20
        assert (await one.get("lock", name="a"))["holders"][0]["left"] <= 20

    play(place.url, scene)


@both
def test_a_lease_does_not_outlive_its_session(place: Place) -> None:
    async def scene(one: Caller) -> None:
        session = await one.session(ttl=600)
        lease = (await one.post("acquire", name="a", session=session))["lease"]
        service = one.app.service
        await service.ask(service.sessions.close_step(LeaseText.read(lease).session_id))  # as if its time had run out
        assert (await one.post("renew", lease=lease, expect=410))["reason"] == "expired"
        await one.post("acquire", name="a", ttl=30)

    play(place.url, scene)


@both
def test_forged_detached_texts_do_nothing(place: Place) -> None:
    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=30)
        text = (await one.post("detach", lease=held["lease"]))["text"]
        for at in range(4, len(text) - 1, 3):
            forged = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
            answer = await one.client.post("/v1/adopt", json={"text": forged, "ttl": 30})
            assert answer.status_code in (400, 410), answer.text
        digits = (await one.get("lock", name="a"))["holders"][0]["owner"]
        shown = (digits * 4).encode()[:24], bytes.fromhex(digits).ljust(24, b"\0"), digits.encode().ljust(24, b"\0")
        fence = held["fence"]
        for owner in shown:  # what looks show is no owner
            await one.post("adopt", text=Detached("a", owner).text(), ttl=30, expect=410)
            lease = LeaseText(Held("a", Kind.EXCLUSIVE, 1, owner, fence), 30.0).text()
            for verb in ("release", "renew", "detach"):
                await one.post(verb, lease=lease, expect=410)
        assert (await one.get("lock", name="a"))["holders"][0]["fence"] == fence
        await one.post("adopt", text=text, ttl=30)

    play(place.url, scene)


@both
def test_what_is_done_by_force_is_recorded_also_for_a_session_without_leases(place: Place) -> None:
    async def scene(one: Caller) -> None:
        await one.session(label="idle", host="web-1", pid=7)
        (shown,) = (await one.get("sessions"))["sessions"]
        assert await one.post("force-close", id=shown["id"], reason="stuck") == {"released": 0}
        (record,) = (await one.get("audit"))["records"]
        assert (record["action"], record["name"], record["by"]) == ("force_close", "", "tester")
        assert [(each["label"], each["host"], each["pid"]) for each in record["holders"]] == [("idle", "web-1", 7)]
        session = await one.session()
        held = await one.post("acquire", name="a", session=session)
        waits = asyncio.create_task(one.client.post("/v1/acquire", json={"name": "b", "session": session, "wait": 20}))
        id_ = LeaseText.read(held["lease"]).session_id.hex()
        assert (await one.post("force-close", id=id_, reason="stuck too"))["released"] == 1
        assert (await waits).status_code in (200, 410)
        records = (await one.get("audit"))["records"]
        assert [(each["action"], each["name"]) for each in records[:2]] == [("force_close", "a"), ("force_close", "")]
        assert {each["reason"] for each in records[:2]} == {"stuck too"}

    play(place.url, scene)


@both
def test_a_forced_release_is_repeated_with_its_owner_only(place: Place) -> None:
    async def scene(one: Caller) -> None:
        await one.post("acquire", name="a", ttl=30)
        owner = (await one.get("lock", name="a"))["holders"][0]["owner"]
        how: dict[str, Any] = {"name": "a", "reason": "stuck", "owner": owner}
        assert (await one.post("force-release", **how))["released"] == 1
        after = await one.post("acquire", name="a", ttl=30)
        assert await one.post("force-release", **how) == {"released": 0, "fence": None}
        assert (await one.post("renew", lease=after["lease"]))["fence"] == after["fence"]

    play(place.url, scene)


def test_another_token_does_not_learn_that_a_session_is_there(url: str, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.toml")
    one_token, other_token = tokens.add("one", "lock"), tokens.add("other", "lock")

    async def main() -> None:
        async with with_tokens(url, tokens) as one:
            as_one, as_other = ({"authorization": f"Bearer {each}"} for each in (one_token, other_token))
            opened = await one.post("session/open", expect=201, headers=as_one)
            await one.post("session/close", session=opened["session"], headers=as_other, expect=410)
            await one.post("session/beat", session=opened["session"], headers=as_one)
            for _ in range(2):
                await one.post("session/close", session=opened["session"], headers=as_one)

    asyncio.run(main())
