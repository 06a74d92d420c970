"""Attempts to get in: wrong and revoked tokens, wrong role, out of scope, forged texts, other origins, other hosts."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from holdtight.server.tokens import TokenFile, add_token
from tests.service.calling import Caller, Tokens, with_tokens

_numbers = itertools.count(1)


@pytest.fixture
def url() -> str:
    return f"memory://getting-in-{next(_numbers)}"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.toml")


def as_bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def ask(one: Caller, verb: str, token: str, /, **body: Any) -> httpx.Response:
    return await one.client.post(f"/v1/{verb}", json=body, headers=as_bearer(token))


def play(url: str, tokens: Tokens | None, scene: Any, **how: Any) -> None:
    async def main() -> None:
        async with with_tokens(url, tokens, **how) as one:
            await scene(one)

    asyncio.run(main())


VERBS: dict[str, dict[str, Any]] = {
    "session/open": {},
    "acquire": {"name": "a", "ttl": 30},
    "force-release": {"name": "a", "reason": "x"},
}


def test_without_and_with_wrong_and_with_revoked_tokens_nobody_gets_in(url: str, tokens: Tokens) -> None:
    good = tokens.add("good", "admin")

    async def scene(one: Caller) -> None:
        wrong = [{}, as_bearer("ht_" + "x" * 43), {"authorization": good}, {"authorization": f"Basic {good}"}]
        for headers in wrong:
            for verb, body in VERBS.items():
                answer = await one.client.post(f"/v1/{verb}", json=body, headers=headers)
                assert answer.status_code in (401, 429)
                assert answer.status_code == 429 or answer.headers["www-authenticate"] == "Bearer"
            for path in ("/v1/locks", "/v1/audit", "/v1/events", "/v1/me", "/metrics"):
                assert (await one.client.get(path, headers=headers)).status_code in (401, 429)
        assert (await ask(one, "acquire", good, name="a", ttl=30)).status_code == 200
        tokens.path.write_text("", "utf-8")
        assert tokens.file is not None
        tokens.file.reload()
        assert (await ask(one, "acquire", good, name="b", ttl=30)).status_code in (401, 429)
        assert (await one.client.get("/healthz")).status_code == 200

    play(url, tokens, scene)


def test_guessing_is_slowed_and_a_right_token_always_passes(url: str, tokens: Tokens) -> None:
    good = tokens.add("good", "read")

    async def scene(one: Caller) -> None:
        seen = [(await one.client.get("/v1/me", headers=as_bearer("ht_guess"))).status_code for _ in range(12)]
        assert seen == [401] * 10 + [429] * 2
        assert (await one.client.get("/v1/me", headers=as_bearer(good))).status_code == 200

    play(url, tokens, scene)


def test_a_role_may_do_no_more_than_its_own(url: str, tokens: Tokens) -> None:
    reader, locker = tokens.add("reader", "read"), tokens.add("locker", "lock")

    async def scene(one: Caller) -> None:
        for verb, body in VERBS.items():
            assert (await ask(one, verb, reader, **body)).status_code == 403
        assert (await ask(one, "force-release", locker, name="a", reason="x")).status_code == 403
        assert (await ask(one, "force-close", locker, id="0" * 16, reason="x")).status_code == 403
        assert (await one.client.get("/v1/audit", headers=as_bearer(locker))).status_code == 403
        assert (await one.client.get("/v1/locks", headers=as_bearer(reader))).status_code == 200

    play(url, tokens, scene)


def test_names_out_of_scope_are_neither_locked_nor_seen(url: str, tokens: Tokens) -> None:
    whole, bound = tokens.add("whole", "admin"), tokens.add("bound", "admin", "mine:")

    async def scene(one: Caller) -> None:
        other = (await ask(one, "acquire", whole, name="theirs:1", ttl=30)).json()
        mine = (await ask(one, "acquire", bound, name="mine:1", ttl=30)).json()
        detached = (await ask(one, "detach", whole, lease=other["lease"])).json()["text"]
        for verb, body in {
            "acquire": {"name": "theirs:2", "ttl": 30},
            "renew": {"lease": other["lease"]},
            "release": {"lease": other["lease"]},
            "downgrade": {"lease": other["lease"]},
            "detach": {"lease": other["lease"]},
            "adopt": {"text": detached, "ttl": 30},
            "force-release": {"name": "theirs:1", "reason": "x"},
        }.items():
            assert (await ask(one, verb, bound, **body)).status_code == 403, verb
        session = (await ask(one, "session/open", whole)).json()
        assert (await ask(one, "acquire", whole, name="theirs:3", session=session["session"])).status_code == 200
        assert (await ask(one, "force-close", bound, id=session["id"], reason="x")).status_code == 403
        await ask(one, "force-release", whole, name="theirs:3", reason="x")
        await one.app.service.history.write()
        looks = ["/v1/locks", "/v1/graph", "/v1/stats", "/v1/sessions", "/v1/audit", "/v1/nodes"]
        for path in looks:
            answer = await one.client.get(path, headers=as_bearer(bound))
            assert answer.status_code == 200
            assert "theirs" not in answer.text, path
        for path in ("/v1/lock", "/v1/leader", "/v1/audit", "/v1/events"):
            shown = await one.client.get(path, params={"name": "theirs:1"}, headers=as_bearer(bound))
            assert shown.status_code == 403, path
        assert mine["lease"] not in (await one.client.get("/v1/lock?name=mine:1", headers=as_bearer(bound))).text

    play(url, tokens, scene)


def test_what_a_look_shows_is_no_secret(url: str, tokens: Tokens) -> None:
    good, other = tokens.add("good", "admin"), tokens.add("other", "admin")

    async def scene(one: Caller) -> None:
        session = (await ask(one, "session/open", good)).json()
        held = (await ask(one, "acquire", good, name="a", session=session["session"], request="r")).json()
        for path in ("/v1/locks", "/v1/lock?name=a", "/v1/graph", "/v1/sessions", "/v1/leader?name=a"):
            text = (await one.client.get(path, headers=as_bearer(other))).text
            assert session["session"] not in text
            assert held["lease"] not in text
            assert "proof" not in text
        # Nor does the id of a session, or another token with the session's own text, get further.
        assert (await ask(one, "session/beat", other, session=session["id"])).status_code == 400
        assert (await ask(one, "session/beat", other, session=session["session"])).status_code == 410
        assert (await ask(one, "acquire", other, name="b", session=session["session"])).status_code == 410
        assert (await ask(one, "session/close", other, session=session["session"])).status_code == 410
        # The same request id of another token is another owner.
        assert (await ask(one, "acquire", other, name="a", ttl=30, request="r")).status_code == 423

    play(url, tokens, scene)


def test_forged_texts_do_nothing(url: str, tokens: Tokens) -> None:
    good = tokens.add("good", "admin")

    async def scene(one: Caller) -> None:
        held = (await ask(one, "acquire", good, name="a", ttl=30)).json()
        text = held["lease"]
        for at in range(4, len(text) - 1):
            forged = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
            answer = await ask(one, "release", good, lease=forged)
            assert answer.status_code in (200, 400, 410), answer.text
            if (
                answer.status_code == 200
                and not (await one.client.get("/v1/lock?name=a", headers=as_bearer(good))).json()["holders"]
            ):
                # Bits that name the ttl or the session change no owner and no fence.
                held = (await ask(one, "acquire", good, name="a", ttl=30)).json()
                text = held["lease"]
        for forged in ("hts_" + "A" * 32, "hts_" + "A" * 31, "hts_"):
            assert (await ask(one, "session/beat", good, session=forged)).status_code in (400, 410)

    play(url, tokens, scene)


def test_the_page_logs_in_with_a_cookie_that_other_origins_cannot_use(url: str, tokens: Tokens) -> None:
    good = tokens.add("good", "admin")

    async def scene(one: Caller) -> None:
        client = one.client
        assert (await client.post("/login", json={"token": "ht_wrong"})).status_code == 401
        done = await client.post("/login", json={"token": good})
        assert done.status_code == 204
        cookie = done.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert good not in cookie
        me = (await client.get("/v1/me")).json()
        assert (me["token"], me["role"]) == ("good", "admin")
        body = {"name": "a", "reason": "x"}
        for headers in ({}, {"x-csrf-token": "0" * 32}):
            refused = await client.post("/v1/force-release", json=body, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
        right = {"x-csrf-token": me["csrf"]}
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
            refused = await client.post("/v1/force-release", json=body, headers=right | headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
        own = {"origin": "http://127.0.0.1:7379", "sec-fetch-site": "same-origin"}
        assert (await client.post("/v1/force-release", json=body, headers=right | own)).status_code == 200
        form = {"content-type": "text/plain"} | right
        assert (await client.post("/v1/force-release", content=json.dumps(body), headers=form)).status_code == 415
        assert tokens.file is not None
        tokens.file.tokens.clear()
        assert (await client.get("/v1/me")).status_code == 401  # the login dies with its token
        tokens.file.reload()
        assert (await client.post("/logout", json={}, headers=right)).status_code == 204
        client.cookies.set("holdtight", cookie.split(";")[0].partition("=")[2])
        assert (await client.get("/v1/me")).status_code == 401

    play(url, tokens, scene)


def test_a_cookie_under_tls_is_bound_to_the_host(url: str, tokens: Tokens) -> None:
    good = tokens.add("good", "read")

    async def scene(one: Caller) -> None:
        cookie = (await one.client.post("/login", json={"token": good})).headers["set-cookie"]
        assert cookie.startswith("__Host-holdtight=")
        assert "; Secure" in cookie

    play(url, tokens, scene, secure=True)


def test_without_tokens_this_machine_may_look_and_no_more(url: str) -> None:
    async def scene(one: Caller) -> None:
        for verb, body in VERBS.items():
            assert (await one.client.post(f"/v1/{verb}", json=body)).status_code == 401
        assert (await one.client.get("/v1/locks")).status_code == 200
        assert (await one.client.get("/v1/audit")).status_code == 403
        for host in ("evil.example", "evil.example:7379", "127.0.0.1.evil.example", ""):
            answer = await one.client.get("/v1/locks", headers={"host": host})
            assert (answer.status_code, answer.json()["code"]) == (421, "MISDIRECTED")
        for host in ("localhost:7379", "127.0.0.1", "[::1]:7379"):
            assert (await one.client.get("/v1/locks", headers={"host": host})).status_code == 200

    play(url, None, scene)


def test_open_lets_this_machine_do_all_but_no_other_origin(url: str) -> None:
    async def scene(one: Caller) -> None:
        body = {"name": "a", "ttl": 30}
        assert (await one.client.post("/v1/acquire", json=body)).status_code == 200
        evil = {"origin": "http://evil.example"}
        assert (await one.client.post("/v1/acquire", json=body, headers=evil)).status_code == 403

    play(url, None, scene, everything=True)


def test_a_page_comes_with_a_strict_policy(url: str, tokens: Tokens) -> None:
    tokens.add("good", "read")

    async def scene(one: Caller) -> None:
        page = await one.client.get("/login")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in page.headers
        assert "server" not in page.headers

    play(url, tokens, scene)


@pytest.mark.parametrize("path", ["", "locks", "lock", "contention", "graph", "nodes", "sessions", "audit"])
@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("q=a%20b&state=held", "?q=a%20b&state=held"),
        ("name=//evil.example/\\x", "?name=%2F%2Fevil.example%2F%5Cx"),
        ("q=%0d%0aset-cookie:x", "?q=%0d%0aset-cookie:x"),
    ],
)
def test_the_way_back_from_the_login_keeps_the_query_and_leads_nowhere_else(
    url: str, tokens: Tokens, path: str, query: str, kept: str
) -> None:
    tokens.add("good", "read")

    async def scene(one: Caller) -> None:
        answer = await one.client.get("/" + path + (f"?{query}" if query else ""))
        assert answer.status_code == 303
        login, _, text = answer.headers["location"].partition("?next=")
        assert (login, unquote(text)) == ("login", path + kept)
        assert re.fullmatch(r"[a-z]*(\?[^/\\]*)?", unquote(text))  # what static/login.js takes
        assert quote(unquote(text)) == text

    play(url, tokens, scene)


# The token file


def test_a_token_file_is_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    token = add_token(path, 'na"me', "lock", ("a:", 'b"'))
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in path.read_text("utf-8")
    found = TokenFile(path).find(token)
    assert found is not None
    assert (found.name, found.role, found.prefixes) == ('na"me', "lock", ("a:", 'b"'))
    with pytest.raises(ValueError, match="already"):
        add_token(path, 'na"me', "lock", ())
    path.chmod(0o620)
    with pytest.raises(ValueError, match="chmod 600"):
        TokenFile(path)


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "surprise = 1",
        '[[token]]\nname = "a"\nhash = "short"\nrole = "lock"',
        f'[[token]]\nname = "a"\nhash = "{"0" * 64}"\nrole = "root"',
        f'[[token]]\nname = ""\nhash = "{"0" * 64}"\nrole = "read"',
        f'[[token]]\nname = "a"\nhash = "{"0" * 64}"\nrole = "read"\nprefixes = "x"',
        f'[[token]]\nname = "a"\nhash = "{"0" * 64}"\nrole = "read"\nextra = 1',
    ],
)
def test_a_broken_token_file_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.toml"
    token = add_token(path, "name", "lock", ())
    file = TokenFile(path)
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="token"):
        file.reload()
    assert file.find(token) is not None
