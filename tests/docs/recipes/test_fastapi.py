"""docs/recipes/fastapi.md, with FastAPI and uvicorn."""

from __future__ import annotations

import asyncio
import http.client
import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdtight import Locks
from tests.docs.recipes.page import PATIENCE, Run, commands, unpack
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, free_port


def post(port: int, path: str) -> tuple[int, str, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Retry-After"]
    finally:
        connection.close()


def listening(port: int) -> bool:
    try:
        post(port, "/nothing")
    except OSError:
        return False
    return True


@pytest.fixture
def ports(tmp_path: Path, private_server: RunningServer, run: Run) -> list[int]:
    """Two processes that serve the application."""
    (words,) = commands("fastapi")
    assert words[1:3] == ["uvicorn", "shop:app"]
    folder, ports = unpack("fastapi", tmp_path), [free_port(), free_port()]
    for port in ports:
        run(folder, ["-m", *words[1:3], "--port", str(port), "--no-access-log"], HOLDTIGHT_URL=private_server.url)
    wait_for(lambda: all(map(listening, ports)), within=PATIENCE, what="uvicorn")
    return ports


def test_an_order_is_charged_once_whichever_process_is_asked(ports: list[int], tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda at: post(ports[at % 2], "/orders/42/pay"), range(8)))
    assert [status for status, _, _ in answers] == [200] * 8
    assert sorted(text for _, text, _ in answers) == ['{"paid":"before"}'] * 7 + ['{"paid":"now"}']
    assert [line.split()[0] for line in (tmp_path / "charges").read_text().splitlines()] == ["42"]


def test_who_comes_while_somebody_else_has_the_lock_is_told_to_come_back(
    ports: list[int], private_server: RunningServer
) -> None:
    with Locks(private_server.url) as locks, locks.lock("order:7"):
        assert post(ports[0], "/orders/7/pay") == (409, '{"detail":"another request works on this"}', "2")
    assert post(ports[0], "/orders/7/pay")[0] == 200


@pytest.fixture
def shop(tmp_path: Path, private_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application, in this process."""
    monkeypatch.syspath_prepend(unpack("fastapi", tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDTIGHT_URL", private_server.url)
    yield importlib.import_module("shop")
    monkeypatch.delitem(sys.modules, "shop")


def played(shop: Any, charge: Any) -> tuple[httpx.Response, bool]:
    """The answer, and whether the lock was still held when the first of it was sent."""

    async def play() -> tuple[httpx.Response, bool]:
        shop.charge = charge
        held: list[bool] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def look(message: Any) -> None:
                if message["type"] == "http.response.start" and message["status"] == 200:
                    held.append(await shop.app.state.locks.lock("order:42").locked())
                await send(message)

            await shop.app(scope, receive, look)

        async with (
            shop.lifespan(shop.app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client,
        ):
            return await client.post("/orders/42/pay"), any(held)

    return asyncio.run(play())


def test_the_lock_is_free_before_the_answer_goes_to_a_reader_that_may_be_slow(shop: Any) -> None:
    answer, held = played(shop, shop.charge)
    assert (answer.json(), held) == ({"paid": "now"}, False)


def test_an_endpoint_whose_lease_is_lost_is_cancelled_and_the_caller_told(
    shop: Any, private_server: RunningServer
) -> None:
    seen: list[str] = []

    async def charge(order_id: int, fence: int) -> None:
        private_server.flushall()  # the server forgets; the keeper finds out with its next renewal
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    answer, _ = played(shop, charge)
    assert (answer.status_code, answer.json()) == (503, {"detail": "try again"})
    assert seen == ["cancelled"]
    assert not Path("paid/42").exists()


def test_an_endpoint_without_a_server_does_not_run(shop: Any, private_server: RunningServer) -> None:
    private_server.kill()

    async def charge(order_id: int, fence: int) -> None:
        raise AssertionError("charged without the lock")

    assert played(shop, charge)[0].status_code == 503
