"""holdtight.contrib.starlette: FastAPI under uvicorn, and its answers to errors of locks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from holdtight import (
    AsyncLease,
    LeaseLost,
    Locks,
    LockTimeout,
    LossReason,
    NotOwner,
    QueueFull,
    StaleFence,
    Unavailable,
)
from holdtight.contrib import starlette
from tests.contrib.conftest import lines
from tests.docs.recipes.page import PATIENCE, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, free_port

PROGRAM = """
import asyncio, os
from typing import Annotated
from fastapi import Depends, FastAPI
from holdtight import AsyncLease
from holdtight.contrib.starlette import install, lifespan, locked

app = FastAPI(lifespan=lifespan(os.environ["LOCKS"], ttl=10))
install(app)

@app.post("/orders/{order_id}/pay")
async def pay(lease: Annotated[AsyncLease, Depends(locked("order:{order_id}", wait=5), scope="function")]):
    note("begin", lease.name)
    await asyncio.sleep(0.1)
    note("end", lease.name)
    return {"fence": lease.fence}

@app.get("/busy")
async def busy(lease: Annotated[AsyncLease, Depends(locked("order:{number}", wait=0))]):
    return {}

def note(*words):
    with open("log", "a") as file:
        print(*words, file=file)
"""


def test_two_processes_serve_one_order_one_after_the_other(
    tmp_path: Path, private_server: RunningServer, run: Run
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    ports = [free_port(), free_port()]
    for port in ports:
        words = ["-m", "uvicorn", "shop:app", "--port", str(port), "--no-access-log"]
        run(tmp_path, words, LOCKS=private_server.url)

    def up(port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/nothing").status_code == 404
        except httpx.TransportError:
            return False

    wait_for(lambda: all(map(up, ports)), within=PATIENCE)

    async def play() -> list[int]:
        async with httpx.AsyncClient(timeout=60) as client:
            urls = [f"http://127.0.0.1:{ports[n % 2]}/orders/7/pay" for n in range(6)]
            answers = await asyncio.gather(*map(client.post, urls))
        return [answer.status_code for answer in answers]

    assert asyncio.run(play()) == [200] * 6
    assert lines(tmp_path / "log") == ["begin order:7", "end order:7"] * 6
    with Locks(private_server.url) as locks, locks.lock("order:a%3Ab", ttl=5):
        answer = httpx.get(f"http://127.0.0.1:{ports[0]}/busy", params={"number": "a:b"})
    assert (answer.status_code, answer.json()["code"]) == (423, "LOCK_TIMEOUT")
    assert 1 <= int(answer.headers["Retry-After"]) <= 5


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LockTimeout.after("x", 1, None, 1), 423),
        (QueueFull.at("x", 7, 7), 429),
        (Unavailable.because("x", "redis://a", "gone"), 503),
        (StaleFence.below("x", 1, 2), 409),
        (LeaseLost.because("x", LossReason.TAKEN), 409),
        (NotOwner.on("release", "x", None), 409),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_answers_to_errors(error: Exception, status: int) -> None:
    app = FastAPI()
    starlette.install(app)

    @app.get("/")
    async def fail() -> None:
        raise error

    async def play() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            return await client.get("/")

    answer = asyncio.run(play())
    assert answer.status_code == status
    assert answer.json()["code"] == error.code  # type: ignore[attr-defined]
    assert ("Retry-After" in answer.headers) == (status in (423, 429, 503))


def test_a_lifespan_of_ones_own_runs_inside_and_the_client_is_closed_after_it() -> None:
    from contextlib import asynccontextmanager

    seen: list[Any] = []

    @asynccontextmanager
    async def inner(app: Any) -> Any:
        seen.append(app.state.locks)
        yield {"mine": 1}
        async with app.state.locks.lock("x", wait=0):
            seen.append("open")

    async def play() -> None:
        app = FastAPI(lifespan=starlette.lifespan("memory://own", inner=inner))
        async with app.router.lifespan_context(app) as state:
            assert state == {"mine": 1}
        assert seen[1:] == ["open"]
        with pytest.raises(RuntimeError, match="closed"):
            await seen[0].lock("x").acquire()

    asyncio.run(play())


def test_wrong_names_and_options_are_told_at_once() -> None:
    for name in ("order:{}", "order:{id!r}", "{a}{b}", "order:{"):
        with pytest.raises(ValueError, match="name="):
            starlette.locked(name)
    with pytest.raises((TypeError, ValueError), match="ttl"):
        starlette.locked("order:{id}", ttl="5 parsecs")


def test_a_dependency_without_the_lifespan_says_what_is_missing() -> None:
    app = FastAPI()

    @app.get("/{id}")
    async def look(id: int, lease: Annotated[AsyncLease, Depends(starlette.locked("x:{id}"))]) -> None: ...

    async def play() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            await client.get("/1")

    with pytest.raises(RuntimeError, match=r"use holdtight\.contrib\.starlette\.lifespan"):
        asyncio.run(play())
