"""Known faults of redis-py's locks, run against both: redis-py's must show the fault, ours must not.

If a test of redis-py's lock fails, redis-py has fixed the fault: then docs/migrating.md must not mention it any more.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError, TimeoutError
from redis.retry import Retry

from holdtight.stores.redis import plain_store
from tests.compat import forking
from tests.compat.face import CLASSES, Face, Maker, OpenFace, takes
from tests.faults.clients import asks
from tests.support.processes import StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

ONLY_SYNC = pytest.mark.parametrize("colour", ["sync"])
CUTS = pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])


def raised_by(work: Callable[[], object]) -> BaseException | None:
    try:
        work()
    except BaseException as error:
        return error
    return None


# 1: the reply to SET NX is lost


@CUTS
def test_1_after_a_lost_reply_the_lock_is_known_to_be_ours(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker, cut: bool
) -> None:
    face = open_face(proxy.url, maker, socket_timeout=0.3)
    face.lock("warm", timeout=10).acquire()
    lost = proxy.swallow_reply(takes, cut=cut)
    lock = face.lock("a", timeout=20)
    got = lock.acquire(blocking_timeout=2)
    lost.wait()
    own = lost.request is not None and private_server.command("GET", "a").encode() in lost.request.raw
    assert own, "the value under the key is that of the request whose reply was lost"
    if maker == "redis-py":
        assert got is False
        assert face.call(lambda: lock.local.token) is None
        assert int(private_server.command("PTTL", "a")) > 10_000
    else:
        assert got is True
        assert lock.owned()
        lock.release()
        assert not private_server.command("EXISTS", "a")


def test_1_a_lost_reply_to_a_caller_that_does_not_wait_leaves_nothing_behind(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(proxy.url, maker, socket_timeout=0.3)
    face.lock("warm", timeout=10).acquire()
    lost = proxy.swallow_reply(takes)
    lock = face.lock("a", timeout=20)
    if maker == "redis-py":
        assert lock.acquire(blocking=False) is False
        assert int(private_server.command("PTTL", "a")) > 10_000
    else:
        with pytest.raises(TimeoutError):
            lock.acquire(blocking=False)
        wait_for(lambda: not private_server.command("EXISTS", "a"))
    lost.wait()


# 2: acquire is cancelled


@pytest.mark.parametrize("colour", ["asyncio"])
def test_2_a_cancelled_acquire_leaves_nothing_behind(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(proxy.url, maker)
    face.lock("warm", timeout=10).acquire()
    held_up = proxy.hold_reply(lambda raw: b"$1\r\na\r\n" in raw)
    made = CLASSES[maker, "asyncio"](face.client, "a")

    async def give_up() -> None:
        acquiring = asyncio.create_task(made.acquire())
        await asyncio.to_thread(held_up.wait)
        await asyncio.sleep(0.1)  # redis-py sends within a wait_for, which swallows a cancellation now and then
        acquiring.cancel()
        await asyncio.wait([acquiring], timeout=0.05)  # redis-py's is over at once, ours waits for the undo
        held_up.release()
        with pytest.raises(asyncio.CancelledError):
            await acquiring

    face.call(give_up)
    if maker == "redis-py":
        assert private_server.command("PTTL", "a") == -1
    else:
        assert not private_server.command("EXISTS", "a")


# 3: two tasks share one lock object


@pytest.mark.parametrize("colour", ["asyncio"])
def test_3_a_task_cannot_release_what_another_has_taken(
    private_server: RunningServer, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(private_server.url, maker)

    async def share() -> BaseException | None:
        shared = CLASSES[maker, "asyncio"](face.client, "a", timeout=10)
        taken, done = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            await shared.acquire()
            taken.set()
            await done.wait()
            if await shared.owned():
                await shared.release()

        holding = asyncio.create_task(hold())
        await taken.wait()
        error: BaseException | None = None
        try:
            await shared.release()
        except LockError as raised:
            error = raised
        assert bool(private_server.command("EXISTS", "a")) is (error is not None)
        done.set()
        await holding
        return error

    error = face.call(share)
    assert (error is None) is (maker == "redis-py")
    assert not private_server.command("EXISTS", "a")


@pytest.mark.parametrize("colour", ["asyncio"])
def test_3_a_holder_that_lost_the_lock_does_not_release_that_of_its_successor(
    private_server: RunningServer, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(private_server.url, maker)

    async def share() -> BaseException | None:
        shared = CLASSES[maker, "asyncio"](face.client, "a", timeout=10, sleep=0.01)
        first, second = asyncio.Event(), asyncio.Event()
        end = asyncio.Event()

        async def lose() -> BaseException | None:
            await shared.acquire()
            first.set()
            await second.wait()
            try:
                await shared.release()
            except LockError as error:
                return error
            return None

        async def follow() -> None:
            await first.wait()
            private_server.command("DEL", "a")
            await shared.acquire()
            second.set()
            await end.wait()

        losing, following = asyncio.create_task(lose()), asyncio.create_task(follow())
        error = await losing
        assert bool(private_server.command("EXISTS", "a")) is (error is not None)
        end.set()
        await following
        return error

    error = face.call(share)
    assert isinstance(error, LockNotOwnedError) is (maker == "ours")
    assert (error is None) is (maker == "redis-py")


# 4: a release that fails


@ONLY_SYNC
def test_4_a_release_that_failed_can_be_tried_again(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(proxy.url, maker, retry=Retry(NoBackoff(), 0))
    lock = face.lock("a", timeout=20)
    lock.acquire()
    proxy.refuse()
    proxy.cut()
    with pytest.raises(ConnectionError):
        lock.release()
    assert private_server.command("EXISTS", "a")
    proxy.accept()
    if maker == "redis-py":
        with pytest.raises(LockError):
            lock.release()
        assert int(private_server.command("PTTL", "a")) > 10_000
    else:
        assert lock.local.token is not None
        lock.release()
        assert not private_server.command("EXISTS", "a")
        assert lock.local.token is None


# 5: other threads, and forks


@ONLY_SYNC
def test_5_another_thread_gets_a_lock_error(private_server: RunningServer, open_face: OpenFace, maker: Maker) -> None:
    lock = open_face(private_server.url, maker).lock("a", timeout=10)
    lock.acquire()
    found: list[Any] = []
    for verb in (lock.release, lambda: lock.extend(1), lock.reacquire, lock.owned, lambda: lock.local.token):
        thread = threading.Thread(target=lambda verb=verb: found.append(raised_by(verb)))
        thread.start()
        thread.join(10)
    expected = [LockError] * 3 + [type(None)] * 2 if maker == "ours" else [AttributeError] * 5
    assert [type(each) for each in found] == expected
    lock.release()


@pytest.mark.parametrize("colour", ["sync", "asyncio"])
def test_5_a_forked_child_does_not_release_its_parents_lock(
    private_server: RunningServer, start_child: StartChild, maker: Maker, colour: str
) -> None:
    child = start_child(forking.release_in_a_fork, maker, colour, private_server.url)
    answers = child.lines(30)
    assert child.wait() == 0, child.errors
    held = bool(private_server.command("EXISTS", "a"))
    if maker == "redis-py":
        assert (answers, held) == (["child: released"], False)
    else:
        assert (answers, held) == (["child: LockError"], True)


# 6: a silent server, and a timeout of nothing


@pytest.fixture
def silent(private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker) -> Face:
    face = open_face(proxy.url, maker, socket_timeout=0.25)
    face.lock("warm", timeout=10).acquire()
    proxy.black_hole()
    return face


def test_6_an_attempt_on_a_silent_server_ends_before_the_lock_would(silent: Face, maker: Maker) -> None:
    """With the timeout of 5 s that redis-py has by itself, and not a quarter of one, its attempt takes a minute."""
    timeout = 1.8
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        silent.lock("a", timeout=timeout).acquire(blocking=False)
    spent = time.monotonic() - started
    assert (spent > timeout) is (maker == "redis-py"), spent


def test_6_a_timeout_of_nothing_is_not_for_ever(server: RunningServer, open_face: OpenFace, maker: Maker) -> None:
    face = open_face(server.url, maker)
    if maker == "redis-py":
        assert face.lock("a", timeout=0).acquire()
        assert server.command("PTTL", "a") == -1
    else:
        with pytest.raises(ValueError, match="timeout=0: give seconds"):
            face.lock("a", timeout=0)
        lock = face.lock("a", timeout=10)
        lock.timeout = 0
        with pytest.raises(ValueError, match="timeout=0"):
            lock.acquire()
        assert server.keys() == []


# Other faults of requests that are sent twice


def test_time_is_added_once_though_it_was_asked_for_twice(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(proxy.url, maker)
    lock = face.lock("a", timeout=20)
    lock.acquire()
    lock.extend(0.001)
    lost = proxy.swallow_reply(b"EVALSHA", cut=True)
    assert lock.extend(100) is True
    lost.wait()
    assert (int(private_server.command("PTTL", "a")) > 200_000) is (maker == "redis-py")


def test_a_release_that_is_sent_twice_does_not_hit_another_owner_with_the_same_text(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, maker: Maker
) -> None:
    face = open_face(proxy.url, maker)
    for _ in range(2):  # the first time, scripts go over the wire as well
        lock = face.lock("a", timeout=20)
        assert lock.acquire(token="same")
        if _ == 0:
            lock.release()

    def last_request(raw: bytes) -> bool:
        return asks(plain_store.GIVE)(raw) if maker == "ours" else b"EVALSHA" in raw

    def let_another_in(raw: bytes) -> bool:
        if last_request(raw):
            private_server.command("SET", "a", "same", "NX")
        return False

    lost = proxy.swallow_reply(last_request, cut=True)
    proxy.swallow_reply(let_another_in)
    lock.release()
    lost.wait()
    assert private_server.command("GET", "a") == (None if maker == "redis-py" else "same")
