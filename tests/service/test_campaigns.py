"""Two instances, of which one is killed, stopped or unheard, while many clients wait: all get their turn, none twice.

Short forms here; `make faults` plays them with 2,000 clients and for a minute.
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.clients import Client, Gone, ask
from tests.service.instances import Instance, instance, token_file
from tests.service.swallowing import now_and_then, swallower
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")
FAULTS = ("kill", "stop", "swallow")
KEPT = 4.0
"""Places stay for five seconds after the death of an instance. A client that asks again so soon is heard
within them, unless the other instance takes a second to read the request."""
LINGER = 3.8
"""Clients of an instance that was killed come back within so many seconds, so that most of those five have passed for
some of them."""


@contextmanager
def two_instances(server: RunningServer, folder: Path) -> Iterator[tuple[Instance, Instance, str]]:
    path, (token,) = token_file(folder, "admin")
    options = ("--tokens", str(path))
    with instance(server.url, folder, *options) as one, instance(server.url, folder, *options) as two:
        yield one, two, token


class Watch:
    """What every client saw: at most one holder of a name at a time, fences that rise, the order of turns."""

    def __init__(self) -> None:
        self.holder: dict[str, int] = {}
        self.fence: dict[str, int] = {}
        self.order: dict[str, list[int]] = {}
        self.grants = 0

    def enter(self, name: str, who: int, fence: int) -> None:
        assert name not in self.holder, f"{name}: {who} and {self.holder[name]} hold it at once"
        assert fence > self.fence.get(name, 0), f"{name}: fence {fence} after {self.fence[name]}"
        self.holder[name], self.fence[name] = who, fence
        self.order.setdefault(name, []).append(who)
        self.grants += 1

    def leave(self, name: str, who: int) -> None:
        assert self.holder.pop(name) == who


async def until(condition: Callable[[], Awaitable[bool]], within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.05)


async def look(url: str, path: str, token: str) -> str:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.read(-1)
    writer.transport.abort()
    return answer.decode()


async def polls_at(url: str, token: str) -> int:
    text = await look(url, "/metrics", token)
    return round(float(text.partition("\nholdtight_waiting_requests ")[2].split()[0]))


async def lives(client: Client, name: str, over: asyncio.Event) -> int:
    """A session that beats, here or there, all the while. Returns how many beats it had."""
    _, opened = await client.post("session/open", ttl=20)
    session = opened["session"]
    held = await client.acquire(name=name, session=session, request="own", wait=5, stay=True)
    beats, valid_until = 0, time.monotonic() + held["valid"]
    while not over.is_set():
        client.at = random.randrange(2)
        sent = time.monotonic()
        status, beat = await client.post("session/beat", session=session)
        if time.monotonic() > valid_until:
            return beats + 1  # the machine stood still: a lease that is lost is right then
        assert status == 200, beat
        assert [each["fence"] for each in beat["leases"]] == [held["fence"]], beat
        valid_until = max(valid_until, sent + beat["valid"])
        beats += 1
        await asyncio.sleep(0.4)
    await client.post("session/close", session=session)
    return beats


async def fleet(one: Instance, two: Instance, token: str, fault: str, locks: int, ranks: int, urls: list[str]) -> None:
    watch, back, struck = Watch(), dict[int, float](), math.inf
    blocker, over, half = Client([two.url], token), asyncio.Event(), locks * ranks // 2
    paused, go_on = Counter[str](), asyncio.Event()
    names = [f"lock {at}" for at in range(locks)]
    leases = {name: (await blocker.acquire(name=name, ttl=900, request="block"))["lease"] for name in names}
    clients: list[Client] = []

    async def visit(who: int, name: str) -> None:
        # Every other line stands at the instance that is struck as a whole, so that nobody keeps it alive meanwhile.
        client = Client(urls, token, who // locks % 2 if who % locks % 2 else 0)
        client.pause = LINGER if fault == "kill" else client.pause
        clients.append(client)
        body: dict[str, Any] = {"name": name, "ttl": 900, "request": f"{who}", "wait": 40, "stay": True}
        while True:
            away = client.away
            status, answer = await client.post("acquire", **body)
            if client.away > away and client.back_at > struck:
                back[who] = client.back_at - struck
            if status == 200:
                break
            assert status == 202, answer
        watch.enter(name, who, answer["fence"])
        if watch.grants >= half and not go_on.is_set():
            paused[name] += 1
            await go_on.wait()
        await asyncio.sleep(0)
        watch.leave(name, who)
        status, done = await client.post("release", lease=answer["lease"], again=True)
        assert status == 200, done

    living = [asyncio.create_task(lives(Client(urls, token, patience=2.0), f"own {at}", over)) for at in range(5)]
    visits: list[asyncio.Task[None]] = []
    for rank in range(ranks):  # in line one behind the other
        visits += [asyncio.create_task(visit(rank * locks + at, name)) for at, name in enumerate(names)]

        async def stand(rank: int = rank) -> bool:
            counts = await look(two.url, "/v1/stats?minutes=1", token)
            return f'"waiting":{(rank + 1) * locks},' in counts

        await until(stand)
    for name in names:
        assert (await blocker.post("release", lease=leases[name], again=True))[0] == 200

    async def is_half() -> bool:
        assert not any(task.done() and task.exception() for task in visits)
        done = [name for name in names if len(watch.order.get(name, ())) == ranks and not paused[name]]
        return len(paused) + len(done) >= locks  # a line may have ended before half of all had their turn

    await until(is_half)
    struck = time.monotonic()
    if fault == "kill":
        one.signal(signal.SIGKILL)
        rest = locks * ranks - watch.grants

        async def all_back() -> bool:
            return await polls_at(two.url, token) >= rest

        await until(all_back)
    elif fault == "stop":
        one.signal(signal.SIGSTOP)
        with pytest.raises(Gone):
            await ask(one.url, "session/open", token, within=1)
        for client in clients:  # their users see that it is silent
            client.leave(one.url)
        await asyncio.sleep(10)
        one.signal(signal.SIGCONT)
    go_on.set()
    await asyncio.gather(*visits)
    over.set()
    assert min(await asyncio.gather(*living)) > 0
    assert watch.grants == locks * ranks
    assert watch.holder == {}
    late = {who for who, after in back.items() if after > KEPT}
    orders = [[who for who in order if who not in late] for order in watch.order.values()]
    in_order = sum(order == sorted(order) for order in orders)
    took = max(back.values(), default=0.0)
    print(f"{fault}: {watch.grants} turns, {len(back)} asked elsewhere in {took:.1f} s, {len(late)} of them too late,")
    print(f"{in_order} of {locks} lines in order")
    if fault != "swallow":
        assert len(late) < len(back)
        assert in_order == locks


def play(server: RunningServer, folder: Path, fault: str, locks: int, ranks: int) -> None:
    with two_instances(server, folder) as (one, two, token), ExitStack() as stack:
        urls = [one.url, two.url]
        if fault == "swallow":
            lossy = [stack.enter_context(swallower(url, now_and_then(0.1, at))) for at, url in enumerate(urls)]
            urls = [each.url for each in lossy]
        asyncio.run(fleet(one, two, token, fault, locks, ranks, urls))
        if fault == "swallow":
            assert all(each.lost for each in lossy)


@pytest.mark.parametrize("fault", FAULTS)
def test_everybody_gets_a_turn_whatever_happens_to_an_instance(
    server: RunningServer, tmp_path: Path, fault: str
) -> None:
    play(server, tmp_path, fault, 5, 4)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_two_thousand_clients_get_a_turn_whatever_happens_to_an_instance(
    server: RunningServer, tmp_path: Path, fault: str
) -> None:
    play(server, tmp_path, fault, 100, 20)


# Hanging up here, asking there


async def hop(one: Instance, two: Instance, token: str, number: int, a_second: float, stops: bool) -> Counter[str]:
    """A holder releases while its successor hangs up at one instance and asks the other: what the successor is told is
    true, and stays true."""
    chance, seen = random.Random(number), Counter[str]()

    async def round_(at: int) -> None:
        name = f"hop {at}"
        holder = Client([two.url], token, patience=20)
        first = await holder.acquire(name=name, ttl=60, request="holder")
        body: dict[str, Any] = {"name": name, "ttl": 60, "request": "hops", "wait": 20}
        here = asyncio.create_task(ask(one.url, "acquire", token, within=30, **body))
        await asyncio.sleep(chance.uniform(0.0, 0.1))
        release = asyncio.create_task(holder.post("release", lease=first["lease"], again=True))
        await asyncio.sleep(chance.uniform(0.0, 0.02))
        told = 0
        if here.done() and not here.exception():
            told = here.result()[1].get("fence", 0)
        here.cancel()
        status, there = await ask(two.url, "acquire", token, within=30, **body)
        assert status == 200, there
        if told:
            assert there["fence"] == told, "a grant was taken back from a client that was told of it"
        await release
        await asyncio.gather(here, return_exceptions=True)
        await asyncio.sleep(chance.uniform(0.0, 0.3))  # whatever the first poll still does
        status, again = await holder.post("renew", lease=there["lease"])
        assert status == 200, f"{name}: {again}"
        assert (await holder.post("release", lease=there["lease"]))[0] == 200
        seen["told here" if told else "told there"] += 1

    async def stop_and_continue() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.5, 2.0))
            one.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(chance.uniform(0.2, 3.0))
            finally:
                one.signal(signal.SIGCONT)

    stopping = asyncio.create_task(stop_and_continue()) if stops else None
    rounds: list[asyncio.Task[None]] = []
    for at in range(number):
        rounds.append(asyncio.create_task(round_(at)))
        await asyncio.sleep(1 / a_second)
    await asyncio.gather(*rounds)
    if stopping is not None:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
    return seen


@pytest.mark.parametrize("stops", [False, True], ids=["runs", "stops"])
def test_who_hangs_up_here_and_asks_there_keeps_what_it_is_told(
    server: RunningServer, tmp_path: Path, stops: bool
) -> None:
    with two_instances(server, tmp_path) as (one, two, token):
        seen = asyncio.run(hop(one, two, token, 75, 25, stops))
    assert seen.total() == 75


@pytest.mark.long
@pytest.mark.parametrize("stops", [False, True], ids=["runs", "stops"])
def test_who_hangs_up_here_and_asks_there_keeps_what_it_is_told_for_a_minute(
    server: RunningServer, tmp_path: Path, stops: bool
) -> None:
    with two_instances(server, tmp_path) as (one, two, token):
        seen = asyncio.run(hop(one, two, token, 1500, 25, stops))
    assert seen.total() == 1500
    assert min(seen["told here"], seen["told there"]) > 15
    print(seen)


# A client that falls silent


def test_the_locks_of_a_silent_client_are_free_at_its_ttl_and_not_before(server: RunningServer, tmp_path: Path) -> None:
    """By the server's clock: the fence of the next grant says when that was."""

    async def scene(one: Instance, two: Instance, token: str) -> None:
        client = Client([one.url, two.url], token)
        session = (await client.post("session/open", ttl=3))[1]["session"]
        names = [f"silent {at}" for at in range(20)]
        for name in names:
            await client.acquire(name=name, session=session, request="r")
        others = [asyncio.create_task(Client([two.url], token).acquire(name=name, ttl=30, wait=30)) for name in names]
        sent = time.monotonic()
        status, beat = await client.post("session/beat", session=session)  # the last sign of life
        answered = time.monotonic()
        assert (status, len(beat["leases"])) == (200, 20)
        start = time.time() - time.monotonic()
        for grant in await asyncio.gather(*others):
            granted = grant["fence"] / 1e6 - start  # fences are the server's time, in microseconds
            assert grant["previous_expired"]
            assert sent + 3 <= granted <= answered + 3 + 1, (granted - sent, granted - answered)

    with two_instances(server, tmp_path) as (one, two, token):
        asyncio.run(scene(one, two, token))
