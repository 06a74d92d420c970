"""The limits of the service, each reached for real: what is refused, who is not, and that room is made again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn.server

from holdtight.server.protocol import Protocol
from tests.service.calling import Caller, Tokens, with_tokens
from tests.service.instances import instance, token_file
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")

SESSIONS = LEASES = 1000
WAITS = 2000
STREAMS = 20
BODY = 16 * 1024


class Visitor:
    """One token."""

    def __init__(self, caller: Caller, token: str) -> None:
        self._caller = caller
        self.headers = {"authorization": f"Bearer {token}"}

    async def ask(self, verb: str, /, *, expect: int = 200, **body: Any) -> Any:
        return await self._caller.post(verb, expect=expect, headers=self.headers, **body)

    async def refused(self, verb: str, /, **body: Any) -> None:
        assert (await self.ask(verb, expect=429, **body))["code"] == "LIMIT_REACHED"


def play(server: RunningServer, folder: Path, scene: Callable[[Caller, Visitor, Visitor], Awaitable[None]]) -> None:
    tokens = Tokens(folder / "tokens.toml")
    texts = [tokens.add(name, "lock") for name in ("one", "two")]

    async def main() -> None:
        async with with_tokens(server.url, tokens) as caller:
            await scene(caller, Visitor(caller, texts[0]), Visitor(caller, texts[1]))

    asyncio.run(main())


async def some_at_a_time(number: int, act: Callable[[int], Awaitable[Any]]) -> list[Any]:
    found: list[Any] = []
    for at in range(0, number, 50):
        found += await asyncio.gather(*[act(each) for each in range(at, min(number, at + 50))])
    return found


def test_a_token_has_a_thousand_sessions(server: RunningServer, tmp_path: Path) -> None:
    async def scene(caller: Caller, one: Visitor, two: Visitor) -> None:
        opened = await some_at_a_time(SESSIONS, lambda at: one.ask("session/open", expect=201, ttl=600))
        await one.refused("session/open", ttl=600)
        await two.ask("session/open", expect=201)
        await one.ask("session/close", session=opened[7]["session"])
        await one.ask("session/open", expect=201, ttl=600)
        await one.refused("session/open", ttl=600)

    play(server, tmp_path, scene)


def test_requests_that_come_at_once_open_no_more_sessions_than_there_may_be(
    server: RunningServer, tmp_path: Path
) -> None:
    async def scene(caller: Caller, one: Visitor, two: Visitor) -> None:
        await some_at_a_time(SESSIONS - 5, lambda at: one.ask("session/open", expect=201, ttl=600))
        headers = one.headers
        asked = [caller.client.post("/v1/session/open", json={"ttl": 600}, headers=headers) for _ in range(20)]
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*asked))
        assert statuses == [201] * 5 + [429] * 15

    play(server, tmp_path, scene)


def test_a_session_has_a_thousand_leases(server: RunningServer, tmp_path: Path) -> None:
    async def scene(caller: Caller, one: Visitor, two: Visitor) -> None:
        session = (await one.ask("session/open", expect=201, ttl=600))["session"]
        how = {"session": session, "request": "r"}
        held = await some_at_a_time(LEASES, lambda at: one.ask("acquire", name=f"a {at}", **how))
        await one.refused("acquire", name="one more", **how)
        assert not (await caller.locks.inspect("one more")).locked
        again = await one.ask("acquire", name="a 3", **how)  # what it has counts once
        assert again["fence"] == held[3]["fence"]
        await one.ask("acquire", name="one more", ttl=30)  # without the session
        await one.ask("release", lease=held[5]["lease"])
        await one.ask("acquire", name="a 1000", **how)
        beat = await one.ask("session/beat", session=session)
        assert len(beat["leases"]) == LEASES
        assert (await one.ask("session/close", session=session))["released"] == LEASES

    play(server, tmp_path, scene)


def test_a_token_has_two_thousand_waits(server: RunningServer, tmp_path: Path) -> None:
    async def scene(caller: Caller, one: Visitor, two: Visitor) -> None:
        service = caller.app.service
        for at in range(20):
            await one.ask("acquire", name=f"a {at}", ttl=600)
        waits = [
            asyncio.create_task(one.ask("acquire", name=f"a {at % 20}", ttl=600, wait=50, request=f"{at}"))
            for at in range(WAITS)
        ]
        async with asyncio.timeout(60):
            while len(service.polls) < WAITS:
                await asyncio.sleep(0.02)
        await one.refused("acquire", name="a 0", ttl=30, wait=1, request="one more")
        await one.ask("acquire", name="free", ttl=30)  # without waiting
        await two.ask("acquire", name="a 0", ttl=30, wait=1, request="r", stay=True, expect=202)
        waits[0].cancel()
        await asyncio.gather(waits[0], return_exceptions=True)
        await one.ask("acquire", name="a 0", ttl=30, wait=1, request="now", expect=423)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert not service.waits
        assert not service.polls

    play(server, tmp_path, scene)


def test_a_token_has_twenty_streams(server: RunningServer, tmp_path: Path) -> None:
    path, (token, other) = token_file(tmp_path, "admin", "read")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one, ExitStack() as stack:

        def listen(token: str) -> tuple[httpx.Response, ExitStack]:
            own = stack.enter_context(ExitStack())
            headers = {"authorization": f"Bearer {token}"}
            client = own.enter_context(httpx.Client(trust_env=False, timeout=30))
            return own.enter_context(client.stream("GET", f"{one.url}/v1/events", headers=headers)), own

        streams = [listen(token) for _ in range(STREAMS)]
        assert [answer.status_code for answer, _ in streams] == [200] * STREAMS
        refused, _ = listen(token)
        assert refused.status_code == 429
        assert json.loads(refused.read())["code"] == "LIMIT_REACHED"
        assert listen(other)[0].status_code == 200
        streams[0][1].close()
        wait_for(lambda: listen(token)[0].status_code == 200, within=20)


def test_a_body_has_sixteen_kilobytes(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        for at, (size, expected) in enumerate(((BODY, 200), (BODY + 1, 413), (100 * BODY, 413))):
            raw = json.dumps({"name": f"{at}", "ttl": 30}).encode()
            raw += b" " * (size - len(raw))
            chunks = [raw[start : start + 1000] for start in range(0, len(raw), 1000)]
            for content in (raw, iter(chunks)):  # with its length, and in chunks without it
                with httpx.Client(trust_env=False, timeout=30) as client:
                    try:
                        answer = client.post(f"{one.url}/v1/acquire", content=content, headers=headers)
                    except httpx.WriteError:
                        assert size > 50 * BODY  # the answer came before all was sent
                        continue
                assert answer.status_code in ((expected, 423) if expected == 200 else (expected,)), answer.text
        assert one.get("/healthz").status_code == 200


def test_a_slow_client_is_cut_off_in_time(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a timer of half a second; `test_slow_clients_are_cut_off` waits for the real one."""
    monkeypatch.setattr(Protocol._arm, "__defaults__", (0.5,))
    tokens = Tokens(tmp_path / "tokens.toml")
    token = tokens.add("one", "lock")

    async def main() -> None:
        async with with_tokens(server.url, tokens) as caller:
            config = uvicorn.Config(caller.app, http=Protocol, lifespan="off", log_config=None, access_log=False)
            config.load()
            state = uvicorn.server.ServerState()
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(
                lambda: Protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
            )
            port = listening.sockets[0].getsockname()[1]
            body = b'{"name": "a", "ttl": 30}'
            head = b"POST /v1/acquire HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n" % token.encode()
            head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

            async def drip(text: bytes) -> bytes:
                """A byte now and then; the last one never comes."""
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    answer = asyncio.create_task(reader.read(-1))
                    for at in range(len(text) - 1):
                        writer.write(text[at : at + 1] if at else text[: len(text) - 10])
                        done, _ = await asyncio.wait([answer], timeout=0.2)
                        if done:
                            break
                    async with asyncio.timeout(20):
                        return await answer
                finally:
                    writer.transport.abort()

            slow = await asyncio.gather(drip(head), drip(head + body), drip(b""))
            # A request whose head has come is under way: its connection just ends.
            assert [each[:12] for each in slow] == [b"HTTP/1.1 408", b"", b"HTTP/1.1 408"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + body)
            assert (await reader.read(12)) == b"HTTP/1.1 200"
            writer.close()
            listening.close()

    asyncio.run(main())
