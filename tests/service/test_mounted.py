"""The service inside another program, under a prefix: Starlette and FastAPI."""

from __future__ import annotations

import asyncio
from typing import Any

import fastapi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from holdtight import AsyncLocks, NotSupported
from holdtight.server import Principal, app


async def authorize(request: Request) -> Principal | None:
    team = request.headers.get("x-team")
    return Principal(team, "lock", (f"{team}:",)) if team else None


def under(framework: str, service: Any) -> Any:
    if framework == "starlette":
        return Starlette(routes=[Mount("/some/locks", service)])
    program = fastapi.FastAPI()
    program.mount("/some/locks", service)
    return program


@pytest.mark.parametrize("framework", ["starlette", "fastapi"])
def test_a_program_mounts_it_and_says_who_may(framework: str) -> None:
    async def main() -> None:
        async with AsyncLocks(f"memory://mounted-{framework}") as locks:
            transport = httpx.ASGITransport(under(framework, app(locks, authorize=authorize)))
            async with httpx.AsyncClient(transport=transport, base_url="http://host/some/locks") as client:
                body = {"name": "a:1", "ttl": 30, "request": "r"}
                assert (await client.post("/v1/acquire", json=body)).status_code == 401
                ours, theirs = {"x-team": "a"}, {"x-team": "b"}
                held = (await client.post("/v1/acquire", json=body, headers=ours)).json()
                assert (await client.post("/v1/acquire", json=body, headers=ours)).json()["fence"] == held["fence"]
                assert (await client.post("/v1/acquire", json=body, headers=theirs)).status_code == 403
                assert (await client.get("/v1/locks", headers=ours)).json()["total"] == 1
                assert (await client.get("/v1/locks", headers=theirs)).json()["total"] == 0
                page = await client.get("/locks", headers=ours)
                assert 'src="static/app.js"' in page.text  # relative: it works under any prefix
                assert (await client.get("/static/app.js")).status_code == 200
                assert (await client.get("/login")).status_code == 404
                assert (await client.get("/healthz")).status_code == 200

    asyncio.run(main())


def test_two_clients_of_one_name_have_the_same_owner_on_every_instance() -> None:
    async def main() -> None:
        fences = set[int]()
        for _ in range(2):
            async with AsyncLocks("memory://mounted-twice") as locks:
                transport = httpx.ASGITransport(app(locks, authorize=authorize))
                async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
                    body = {"name": "a:1", "ttl": 30, "request": "r"}
                    answer = await client.post("/v1/acquire", json=body, headers={"x-team": "a"})
                    fences.add(answer.json()["fence"])
        assert len(fences) == 1

    asyncio.run(main())


def test_what_cannot_be_served_is_refused_at_once() -> None:
    with pytest.raises(NotSupported, match="quorum"):
        app(AsyncLocks(["redis://h", "redis://i", "redis://j"]), authorize=authorize)
    with pytest.raises(TypeError, match="authorize"):
        app(AsyncLocks("memory://"), authorize=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AsyncLocks"):
        app(object(), authorize=authorize)  # type: ignore[arg-type]
