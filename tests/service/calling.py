"""The service in this process, called without a network: for tests of what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from holdtight import AsyncLocks
from holdtight.server import Principal
from holdtight.server.answers import ANSWERS
from holdtight.server.gate import Standalone
from holdtight.server.http import App
from holdtight.server.service import Service
from holdtight.server.tokens import TokenFile, add_token

__all__ = ["Caller", "Tokens", "caller", "play", "with_tokens"]


def checked(word: str, answer: httpx.Response) -> Any:
    """The answer, which has the members that the OpenAPI document names, and no others."""
    if answer.status_code < 400:
        msgspec.json.decode(answer.content, type=ANSWERS[word][answer.status_code])
    return answer.json()


class Caller:
    """One client of the service."""

    def __init__(self, client: httpx.AsyncClient, app: App, locks: AsyncLocks) -> None:
        self.client = client
        self.app = app
        self.locks = locks

    async def post(self, verb: str, /, *, expect: int = 200, headers: dict[str, str] | None = None, **body: Any) -> Any:
        answer = await self.client.post(f"/v1/{verb}", json=body, headers=headers)
        assert answer.status_code == expect, f"{verb}: {answer.status_code} {answer.text}"
        return checked(verb, answer)

    async def get(self, look: str, /, *, expect: int = 200, **params: Any) -> Any:
        answer = await self.client.get(f"/v1/{look}", params=params)
        assert answer.status_code == expect, f"{look}: {answer.status_code} {answer.text}"
        return checked(look, answer)

    async def session(self, **body: Any) -> str:
        return str((await self.post("session/open", expect=201, **body))["session"])


@asynccontextmanager
async def caller(url: str, *, role: str = "admin", prefixes: tuple[str, ...] = ()) -> AsyncIterator[Caller]:
    from holdtight.server import app

    async with AsyncLocks(url) as locks:
        made = app(locks, authorize=lambda request: Principal("tester", role, prefixes))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://test") as client:
            yield Caller(client, made, locks)
        await made.service.history.write()


class Tokens:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: TokenFile | None = None

    def add(self, name: str, role: str, *prefixes: str) -> str:
        token = add_token(self.path, name, role, prefixes)
        if self.file is None:
            self.file = TokenFile(self.path)
        self.file.reload()
        return token


@asynccontextmanager
async def with_tokens(url: str, tokens: Tokens | None, **how: Any) -> AsyncIterator[Caller]:
    """As `holdtight serve`."""
    async with AsyncLocks(url) as locks:
        made = App(Service(locks), Standalone(tokens.file if tokens else None, **how))
        transport = httpx.ASGITransport(made, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7379") as client:
            yield Caller(client, made, locks)
        await made.service.history.write()


def play(url: str, scene: Callable[[Caller], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        async with caller(url, **how) as one:
            await scene(one)

    asyncio.run(main())
