"""A caller that gives up in the middle, by a cancellation or an interrupt, leaves no lock behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio
from redis.exceptions import LockError

from holdtight.compat.redis_py import AsyncLock
from holdtight.stores.redis import plain_store
from tests.compat import interrupting
from tests.compat.face import takes
from tests.faults.clients import asks
from tests.support.processes import StartChild, wait_for
from tests.support.proxy import Match, Proxy
from tests.support.servers import RunningServer

pytestmark = pytest.mark.asyncio


@pytest.fixture
def known_scripts(private_server: RunningServer) -> None:
    with private_server.connect() as client:
        for script in (plain_store.TAKE, plain_store.GIVE, plain_store.KEEP, plain_store.SIGN, plain_store.UNSIGN):
            client.call("SCRIPT", "LOAD", script.body)


@pytest_asyncio.fixture
async def client(proxy: Proxy, known_scripts: None) -> Any:
    found = redis.asyncio.Redis.from_url(proxy.url)
    async with AsyncLock(found, "warm", timeout=10):
        pass
    yield found
    await found.aclose()


async def gone(server: RunningServer) -> None:
    await asyncio.to_thread(wait_for, lambda: not server.command("EXISTS", "a"))


async def cancel_while_unanswered(proxy: Proxy, match: Match, work: Coroutine[Any, Any, Any]) -> None:
    """Cancels when the server has carried the request out and its answer is in flight."""
    held_up = proxy.hold_reply(match)
    task = asyncio.create_task(work)
    await asyncio.to_thread(held_up.wait)
    task.cancel()
    await asyncio.sleep(0)
    held_up.release()
    with pytest.raises(asyncio.CancelledError):
        await task


MOMENTS: dict[str, tuple[Match, dict[str, Any], dict[str, Any]]] = {
    "first request": (takes, {"timeout": 60}, {}),
    "first request, for ever": (asks(plain_store.TAKE), {}, {}),
    "signing": (asks(plain_store.SIGN), {"timeout": 60}, {"token": "mine"}),
    "signing, for ever": (asks(plain_store.SIGN), {}, {"token": "mine"}),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_before_the_answer(
    private_server: RunningServer, proxy: Proxy, client: Any, moment: str
) -> None:
    match, options, arguments = MOMENTS[moment]
    lock = AsyncLock(client, "a", **options)
    await cancel_while_unanswered(proxy, match, lock.acquire(**arguments))
    await gone(private_server)
    assert lock.local.token is None


async def test_a_signing_that_is_undone_twice_does_not_hit_the_next_owner_with_the_same_text(
    private_server: RunningServer, proxy: Proxy, client: Any
) -> None:
    lost = proxy.swallow_reply(asks(plain_store.UNSIGN), cut=True)
    await cancel_while_unanswered(
        proxy, asks(plain_store.SIGN), AsyncLock(client, "a", timeout=60).acquire(token="the service")
    )
    await asyncio.to_thread(lost.wait)

    def take() -> bool:
        return bool(private_server.command("SET", "a", "the service", "NX", "PX", 60_000))

    await asyncio.to_thread(wait_for, take)
    await asyncio.to_thread(proxy.wait_for_request, asks(plain_store.UNSIGN), times=2)
    async with AsyncLock(client, "another", timeout=60):
        pass
    assert private_server.command("GET", "a") == "the service"


async def test_cancelled_while_a_look_is_under_way(private_server: RunningServer, proxy: Proxy, client: Any) -> None:
    private_server.command("SET", "a", "somebody")
    waiting = asyncio.create_task(AsyncLock(client, "a", timeout=60, sleep=0.01).acquire())
    await asyncio.to_thread(proxy.wait_for_request, asks(plain_store.TAKE))

    def looks_when_it_is_free(raw: bytes) -> bool:
        return asks(plain_store.TAKE)(raw) and bool(private_server.command("DEL", "a"))

    held_up = await asyncio.to_thread(proxy.hold_reply, looks_when_it_is_free)
    await asyncio.to_thread(held_up.wait)
    assert private_server.command("EXISTS", "a")
    waiting.cancel()
    held_up.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gone(private_server)


async def test_cancelled_when_the_connection_is_lost_as_well(
    private_server: RunningServer, proxy: Proxy, client: Any
) -> None:
    held_up = proxy.hold_reply(takes)
    task = asyncio.create_task(AsyncLock(client, "a", timeout=60).acquire())
    await asyncio.to_thread(held_up.wait)
    task.cancel()
    proxy.cut()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(private_server)


async def test_cancelled_while_asleep_between_two_looks(private_server: RunningServer, client: Any) -> None:
    private_server.command("SET", "a", "somebody")
    waiting = asyncio.create_task(AsyncLock(client, "a", timeout=60, sleep=30).acquire())
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert private_server.command("GET", "a") == "somebody"


async def test_a_cancelled_release_can_be_repeated(private_server: RunningServer, proxy: Proxy, client: Any) -> None:
    lock = AsyncLock(client, "a", timeout=60)
    await lock.acquire()
    await cancel_while_unanswered(proxy, b"DELIFEQ", lock.release())
    assert await lock.owned() is False
    assert lock.local.token is not None, "what is to be given back is not forgotten"
    await lock.release()
    with pytest.raises(LockError):
        await lock.release()
    await gone(private_server)


async def test_cancelled_at_any_moment(private_server: RunningServer) -> None:
    """Some hundred cancellations at odd times, with and without a holder of the lock."""
    source = random.Random(7)
    found = redis.asyncio.Redis.from_url(private_server.url)
    outcomes: set[bool] = set()
    try:
        for number in range(300):
            options: dict[str, Any] = {"timeout": 60} if number % 3 else {}
            arguments: dict[str, Any] = {"token": "mine"} if number % 2 else {}
            lock = AsyncLock(found, "a", sleep=0.001, **options)
            if number % 5 == 0:
                private_server.command("SET", "a", "somebody", "PX", 2)
            task = asyncio.create_task(lock.acquire(**arguments))
            await asyncio.sleep(source.random() * 0.002)
            task.cancel()
            try:
                outcomes.add(await task)
            except asyncio.CancelledError:
                outcomes.add(False)
                await gone(private_server)
            else:
                await lock.release()
            await gone(private_server)
    finally:
        await found.aclose()
    assert outcomes == {False, True}, "some were cancelled, and some were not"


class CancelledAt:
    """Awaits its argument in the same task, and cancels that task at these awaits."""

    def __init__(self, work: Coroutine[Any, Any, Any], *moments: int) -> None:
        self._work, self._moments = work, moments
        self.awaits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        value, error = None, None
        while True:
            try:
                wish = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            value, error = None, None
            self.awaits += 1
            task = asyncio.current_task()
            if self.awaits in self._moments and task is not None:
                task.cancel()
            try:
                value = yield wish
            except BaseException as raised:
                error = raised


async def a_block(client: Any, name: str) -> None:
    async with AsyncLock(client, name):
        pass


async def a_block_with_a_timeout(client: Any, name: str) -> None:
    async with AsyncLock(client, name, timeout=600) as lock:
        await lock.reacquire()
        await lock.extend(600)


async def a_text(client: Any, name: str) -> None:
    lock = AsyncLock(client, name, timeout=600)
    await lock.acquire(token="the service")
    try:
        await lock.release()
    except asyncio.CancelledError:
        if lock.local.token is not None:
            await lock.release()  # the caller chose the text, so the caller must give it back
        raise


@pytest.mark.parametrize("use", [a_block, a_block_with_a_timeout, a_text], ids=lambda use: use.__name__)
@pytest.mark.parametrize("further", [(), (1,), (2,)], ids=["once", "twice", "twice, later"])
async def test_cancelled_at_every_await(
    private_server: RunningServer, use: Callable[[Any, str], Coroutine[Any, Any, None]], further: tuple[int, ...]
) -> None:
    client = redis.asyncio.Redis.from_url(private_server.url)
    await use(client, "warm")
    cancelled = 0
    for moment in range(1, 100):
        work = CancelledAt(use(client, f"n{moment}"), moment, *(moment + each for each in further))
        task = asyncio.ensure_future(as_a_task(work))
        await asyncio.wait([task])
        if work.awaits < moment:
            break
        cancelled += 1
        assert task.cancelled()
    assert cancelled >= 2
    await asyncio.to_thread(wait_for, lambda: not private_server.keys("n*"), within=20)
    await client.aclose()


async def as_a_task(work: CancelledAt) -> None:
    await work


@pytest.mark.parametrize("options", ["timeout", "for ever", "token"])
async def test_interrupted_at_any_moment(private_server: RunningServer, start_child: StartChild, options: str) -> None:
    """A signal handler that raises, in blocking code: the lock is known to be held, or it is given back."""
    child = start_child(interrupting.at_any_moment, private_server.url, options)
    lines = child.lines(60)
    assert child.wait() == 0, child.errors
    assert lines[-1] == "clean", child.errors


async def test_a_blocking_attempt_that_is_interrupted_is_undone(
    private_server: RunningServer, proxy: Proxy, known_scripts: None, start_child: StartChild
) -> None:
    held_up = proxy.hold_reply(lambda raw: takes(raw) and b"$1\r\na\r\n" in raw)
    child = start_child(interrupting.once, proxy.url)
    await asyncio.to_thread(child.expect, "asking")
    await asyncio.to_thread(held_up.wait)
    assert private_server.command("EXISTS", "a")
    child.signal(2)
    held_up.release()
    await asyncio.to_thread(child.expect, "interrupted")
    await gone(private_server)


async def test_a_blocking_signing_that_is_interrupted_is_undone_once(
    private_server: RunningServer, proxy: Proxy, known_scripts: None, start_child: StartChild
) -> None:
    """Sent twice, the second may arrive when another owner has the lock under the same text."""
    held_up = proxy.hold_reply(asks(plain_store.SIGN))
    child = start_child(interrupting.once, proxy.url, "mine")
    await asyncio.to_thread(child.expect, "asking")
    await asyncio.to_thread(held_up.wait)
    assert private_server.command("GET", "a") == "mine"
    child.signal(2)
    await asyncio.to_thread(proxy.wait_for_request, asks(plain_store.UNSIGN))
    held_up.release()
    await asyncio.to_thread(child.expect, "interrupted")
    await gone(private_server)
    await asyncio.to_thread(proxy.wait_for_request, interrupting.LAST)
    assert proxy.count(asks(plain_store.UNSIGN)) == 1


async def test_a_signing_that_never_arrives_is_undone_by_one_request(
    private_server: RunningServer, proxy: Proxy, known_scripts: None, start_child: StartChild
) -> None:
    """If a delete of the owner came first, another caller could take the lock, and the unsigning would end its hold."""
    signing = proxy.hold_request(asks(plain_store.SIGN))
    unsigning = proxy.hold_request(asks(plain_store.UNSIGN))
    child = start_child(interrupting.once_and_paused, proxy.url, "mine")
    await asyncio.to_thread(child.expect, "asking")
    await asyncio.to_thread(signing.wait)
    child.signal(2)
    await asyncio.to_thread(unsigning.wait)
    assert private_server.command("SET", "a", "mine", "NX") is None
    unsigning.release()
    await asyncio.to_thread(child.expect, "interrupted")
    await gone(private_server)
    assert private_server.command("SET", "a", "mine", "NX") == "OK"
    signing.release()
    await asyncio.to_thread(proxy.wait_for_request, interrupting.LAST)
    assert private_server.command("GET", "a") == "mine"


async def test_an_undo_of_a_signing_that_the_server_refuses_is_tried_again(
    private_server: RunningServer, proxy: Proxy, known_scripts: None, start_child: StartChild
) -> None:
    held_up = proxy.hold_reply(asks(plain_store.SIGN))
    child = start_child(interrupting.once, proxy.url, "mine")
    await asyncio.to_thread(child.expect, "asking")
    await asyncio.to_thread(held_up.wait)
    private_server.command("CONFIG", "SET", "maxmemory", "1")  # nothing more can be written
    child.signal(2)
    await asyncio.to_thread(proxy.wait_for_request, asks(plain_store.UNSIGN))
    held_up.release()
    await asyncio.to_thread(child.expect, "interrupted")
    assert private_server.command("GET", "a") == "mine"
    private_server.command("CONFIG", "SET", "maxmemory", "0")
    await gone(private_server)
