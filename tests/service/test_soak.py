"""Clients that come and go, for ten minutes: memory, sockets, threads and keys stay as they are."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import time
from pathlib import Path

import pytest

from tests.service.clients import Client, Gone, ask
from tests.service.instances import Instance, instance, token_file
from tests.support.raw import RawClient
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


class Sizes:
    """Of an instance and of its lock server."""

    def __init__(self, one: Instance, server: RunningServer, token: str) -> None:
        proc = Path(f"/proc/{one.process.pid}")
        status = (proc / "status").read_text()
        self.kilobytes = int(re.findall(r"VmRSS:\s+(\d+)", status)[0])
        self.threads = int(re.findall(r"Threads:\s+(\d+)", status)[0])
        self.sockets = sum(1 for each in (proc / "fd").iterdir() if each.is_symlink())
        raw = RawClient(("127.0.0.1", server.port))
        self.keys = int(raw.call("DBSIZE"))
        raw.close()
        metrics = one.get("/metrics", token).text
        found = re.findall(r"^holdtight_(?:waiting_requests|streams) (\d+)", metrics, re.MULTILINE)
        self.waiting = sum(map(int, found))

    def __repr__(self) -> str:
        return str(vars(self))


async def visit(url: str, token: str, at: int, over: float) -> int:
    """One client after the other: some release, some close, some hang up, some just fall silent."""
    chance, visits = random.Random(at), 0
    while time.monotonic() < over:
        client = Client([url], token, patience=30)
        _, opened = await client.post("session/open", ttl=2, label=f"client {at}")
        session = opened["session"]
        name = f"soak:{chance.randrange(50)}"
        body = {"name": name, "session": session, "request": f"{at}-{visits}", "wait": chance.choice([0, 1, 2])}
        if chance.random() < 0.2:
            try:
                await ask(url, "acquire", token, within=chance.uniform(0.01, 0.5), **body)
            except Gone:
                pass  # it has hung up
        else:
            status, answer = await client.post("acquire", **body)
            if status == 200 and chance.random() < 0.7:
                await asyncio.sleep(chance.uniform(0, 0.05))
                await client.post("release", lease=answer["lease"], again=True)
        if chance.random() < 0.7:
            await client.post("session/close", session=session)
        visits += 1
        await asyncio.sleep(chance.uniform(0, 1))
    return visits


def soak(server: RunningServer, folder: Path, clients: int, seconds: float, warm: float) -> None:
    path, (token,) = token_file(folder, "admin")
    with instance(server.url, folder, "--tokens", str(path)) as one:

        async def stage(length: float) -> int:
            over = time.monotonic() + length
            return sum(await asyncio.gather(*[visit(one.url, token, at, over) for at in range(clients)]))

        def settled() -> Sizes:
            time.sleep(15)  # all ttls, tails and heartbeats are over
            gc.collect()
            return Sizes(one, server, token)

        asyncio.run(stage(warm))
        before = settled()
        visits = asyncio.run(stage(seconds))
        after = settled()
        print(f"{visits} visits of {clients} clients; before {before}, after {after}")
        assert visits > clients
        assert after.kilobytes < before.kilobytes * 1.1 + 4096
        assert after.threads <= before.threads + 1
        assert after.sockets <= before.sockets + 3
        assert after.waiting == before.waiting == 0
        # History and the counts of the minutes; nothing of clients, sessions or locks.
        assert after.keys <= before.keys + seconds / 60 + 3
        assert one.get("/v1/sessions", token).json()["total"] == 0
        assert one.get("/v1/locks", token).json()["total"] == 0


@pytest.mark.long
def test_nothing_grows_in_a_minute(server: RunningServer, tmp_path: Path) -> None:
    soak(server, tmp_path, 100, 45, 15)


@pytest.mark.long
def test_nothing_grows_in_ten_minutes_with_five_hundred_clients(server: RunningServer, tmp_path: Path) -> None:
    soak(server, tmp_path, 500, 600, 60)
