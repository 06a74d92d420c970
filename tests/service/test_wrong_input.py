"""Input that is wrong is refused with 400 that names the member, before anything is sent to the lock server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.calling import Caller, Tokens, play, with_tokens

URL = "memory://wrong%20input"

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("acquire", {"ttl": 30}, "name"),
    ("acquire", {"name": "", "ttl": 30}, "name"),
    ("acquire", {"name": "x" * 600, "ttl": 30}, "name"),
    ("acquire", {"name": "a\nb", "ttl": 30}, "name"),
    ("acquire", {"name": 5, "ttl": 30}, "name"),
    ("acquire", {"name": "a"}, "session"),
    ("acquire", {"name": "a", "ttl": 30, "session": "hts_x"}, "session"),
    ("acquire", {"name": "a", "session": "hts_x"}, "session"),
    ("acquire", {"name": "a", "session": "nonsense"}, "session"),
    ("acquire", {"name": "a", "ttl": 0.001}, "ttl"),
    ("acquire", {"name": "a", "ttl": "8d"}, "ttl"),
    ("acquire", {"name": "a", "ttl": True}, "ttl"),
    ("acquire", {"name": "a", "ttl": 30, "wait": -1}, "wait"),
    ("acquire", {"name": "a", "ttl": 30, "wait": 51}, "wait"),
    ("acquire", {"name": "a", "ttl": 30, "kind": "multi"}, "kind"),
    ("acquire", {"name": "a", "ttl": 30, "kind": "permits"}, "permits"),
    ("acquire", {"name": "a", "ttl": 30, "kind": "permits", "n": 3, "permits": 2}, "n="),
    ("acquire", {"name": "a", "ttl": 30, "n": 1}, "n"),
    ("acquire", {"name": "a", "ttl": 30, "stay": True}, "stay"),
    ("acquire", {"name": "a", "ttl": 30, "request": "x" * 129}, "request"),
    ("acquire", {"name": "a", "ttl": 30, "label": "x" * 129}, "label"),
    ("acquire", {"name": "a", "ttl": 30, "holding": ["htl_x"]}, "lease"),
    ("acquire", {"name": "a", "ttl": 30, "surprise": 1}, "surprise"),
    ("session/open", {"ttl": 0.5}, "ttl"),
    ("session/open", {"ttl": "2h"}, "ttl"),
    ("session/open", {"pid": -1}, "pid"),
    ("renew", {"lease": "htl_AAAA"}, "lease"),
    ("renew", {"lease": "htl_" + "A" * 80}, "lease"),
    ("release", {"lease": "hts_AAAA"}, "lease"),
    ("adopt", {"text": "nonsense", "ttl": 30}, "text"),
    ("force-release", {"name": "a", "reason": ""}, "reason"),
    ("force-release", {"name": "a", "reason": "x" * 501}, "reason"),
    ("force-release", {"name": "a", "reason": "x", "owner": "me"}, "owner"),
    ("force-close", {"id": "x", "reason": "x"}, "id"),
]


def test_wrong_bodies_are_refused_and_the_member_is_named() -> None:
    async def scene(one: Caller) -> None:
        for verb, body, member in WRONG:
            problem = await one.post(verb, expect=400, **body)
            assert problem["code"] == "BAD_REQUEST"
            assert member in problem["detail"], (verb, body, problem)
        assert (await one.get("locks"))["total"] == 0

    play(URL, scene)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"name": "\xff"}', b"[" * 10_000, b'{"name":"a"} x'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    async def scene(one: Caller) -> None:
        answer = await one.client.post("/v1/acquire", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")

    play(URL, scene)


WRONG_PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("locks", {"limit": "0"}),
    ("locks", {"limit": "501"}),
    ("locks", {"limit": "x"}),
    ("locks", {"sort": "size"}),
    ("locks", {"surprise": "1"}),
    ("locks", {"cursor": "none"}),
    ("lock", {}),
    ("lock", {"name": ""}),
    ("leader", {"name": "a", "wait": "51"}),
    ("leader", {"name": "a", "after": "-1"}),
    ("stats", {"minutes": "181"}),
    ("sessions", {"cursor": "none"}),
    ("sessions", {"limit": "501"}),
    ("events", {"name": ""}),
    ("events", {"only": "nonsense"}),
]


def test_wrong_parameters_are_refused() -> None:
    async def scene(one: Caller) -> None:
        for look, params in (*WRONG_PARAMETERS, ("audit", {"cursor": "none"})):
            problem = await one.get(look, expect=400, **params)
            assert problem["code"] == "BAD_REQUEST", look

    play(URL, scene)


def test_wrong_input_is_refused_before_anything_is_sent_to_the_lock_server(tmp_path: Path) -> None:
    """There is none: whatever asks it answers 503."""
    tokens = Tokens(tmp_path / "tokens.toml")
    token = tokens.add("one", "admin")

    async def main() -> None:
        async with with_tokens("redis://127.0.0.1:1", tokens) as one:
            one.client.headers["authorization"] = f"Bearer {token}"
            await one.post("acquire", name="a", ttl=30, expect=503)
            for verb, body, _ in WRONG:
                await one.post(verb, expect=400, **body)
            for look, params in WRONG_PARAMETERS:
                await one.get(look, expect=400, **params)

    asyncio.run(main())


def test_other_paths_methods_types_and_sizes() -> None:
    async def scene(one: Caller) -> None:
        client, kind = one.client, {"content-type": "application/json"}
        for path in (
            "/v1",
            "/v1/",
            "/v1/none",
            "/v1/acquire/",
            "//v1/acquire",
            "/v1/%2e%2e/v1/locks",
            "/static/%2e%2e/http.py",
        ):
            assert (await client.get(path)).status_code == 404, path
        wrong = await client.get("/v1/acquire")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        wrong = await client.post("/v1/locks", json={})
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
        assert (await client.post("/v1/acquire", data={"name": "a"})).status_code == 415
        large = json.dumps({"name": "a" * 20_000}).encode()
        assert (await client.post("/v1/acquire", content=large, headers=kind)).status_code == 413

        async def endless() -> Any:
            while True:
                yield b" " * 4096

        assert (await client.post("/v1/acquire", content=endless(), headers=kind)).status_code == 413

    play(URL, scene)


def test_every_answer_has_an_id_and_is_not_kept() -> None:
    async def scene(one: Caller) -> None:
        answer = await one.client.get("/v1/me", headers={"x-request-id": "abc-1"})
        assert (answer.headers["x-request-id"], answer.headers["cache-control"]) == ("abc-1", "no-store")
        answer = await one.client.get("/v1/none", headers={"x-request-id": "a b\tc"})
        assert answer.headers["x-request-id"] != "a b\tc"
        assert answer.headers["content-type"] == "application/problem+json"
        for path in ("/", "/locks", "/static/app.js", "/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/nope"):
            headers = (await one.client.get(path)).headers
            assert headers["x-request-id"], path
            assert headers["cache-control"] == "no-store", path

    play(URL, scene)
