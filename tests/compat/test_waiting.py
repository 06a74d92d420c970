"""Waiting for locks of either maker, for the requested time and no longer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack, closing
from functools import partial

import pytest
import redis
from redis.exceptions import ConnectionError, TimeoutError

from holdtight.compat.redis_py import Lock
from holdtight.stores.redis import plain_store
from tests.compat.face import COLOURS, MAKERS, Colour, Maker, OpenFace, open_face
from tests.faults.clients import asks, start
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


@pytest.mark.parametrize("waits", COLOURS)
def test_it_waits_for_a_lock_of_either_maker(
    server: RunningServer, colour: Colour, maker: Maker, waits: Colour
) -> None:
    """Ours waits for what redis-py's or ours holds, and redis-py's for what ours holds."""
    with ExitStack() as stack:
        holder = stack.enter_context(closing(open_face(maker, colour, server.url)))
        held = holder.lock("a", timeout=20)
        held.acquire()
        waiting: list[Future[bool]] = []
        for other in MAKERS if maker == "ours" else ("ours",):
            waiter = stack.enter_context(closing(open_face(other, waits, server.url)))
            waiting.append(start(waiter.lock("a", timeout=20, sleep=0.01).acquire))
        time.sleep(0.05)
        assert not any(each.done() for each in waiting)
        held.release()
        while waiting:
            got = wait_for(lambda: next((each for each in waiting if each.done()), None))
            assert got.result() is True
            waiting.remove(got)
            server.command("DEL", "a")


def test_the_time_to_wait_is_used_to_its_end(server: RunningServer, open_face: OpenFace) -> None:
    """The end of the wait cuts the pause short, for one last attempt."""
    server.command("SET", "a", "somebody", "PX", "300")
    face = open_face(server.url)
    lock = face.lock("a", timeout=20, sleep=10)
    started = time.monotonic()
    assert lock.acquire(blocking_timeout=1) is True
    assert 0.9 < time.monotonic() - started < 8
    lock.release()
    server.command("SET", "a", "somebody")
    started = time.monotonic()
    assert lock.acquire(blocking_timeout=0.5) is False
    assert 0.45 < time.monotonic() - started < 5


def test_no_time_to_wait_is_one_look(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> None:
    face = open_face(proxy.url)
    with face.lock("warm", timeout=10):
        pass
    private_server.command("SET", "a", "somebody")
    proxy.clear()
    for options in ({"blocking": False}, {"blocking_timeout": 0}, {"blocking_timeout": -1}):
        assert face.lock("a", timeout=20).acquire(**options) is False
    assert proxy.count() == 3


def test_looks_are_as_far_apart_as_asked_for(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> None:
    face = open_face(proxy.url)
    private_server.command("SET", "a", "somebody")
    assert face.lock("a", timeout=20, sleep=0.2).acquire(blocking_timeout=1) is False
    looks = proxy.count(lambda raw: b"$1\r\na\r\n" in raw)
    assert 3 <= looks <= 8, "a first one, some four more, one at the end; NOSCRIPT may count twice"


def test_a_release_wakes_a_waiter_in_this_process(server: RunningServer, open_face: OpenFace) -> None:
    face = open_face(server.url)
    held = face.lock("a", timeout=20)
    held.acquire()
    waiter = start(lambda: face.lock("a", timeout=20, sleep=60).acquire())
    with server.connect() as client:
        wait_for(lambda: "evalsha" in client.call("INFO", "commandstats") or waiter.done())
    time.sleep(0.05)
    held.release()
    assert waiter.result(10) is True


def test_a_release_wakes_a_waiter_of_the_other_colour(server: RunningServer) -> None:
    blocking, on_a_loop = (open_face("ours", each, server.url) for each in COLOURS)
    try:
        for holds, waits in ((blocking, on_a_loop), (on_a_loop, blocking)):
            held = holds.lock("a", timeout=20)
            held.acquire()
            waiter = start(waits.lock("a", timeout=20, sleep=60).acquire)
            wait_for(partial(held._access.line.waiting.get, b"a"))
            time.sleep(0.05)
            held.release()
            assert waiter.result(10) is True
            server.command("DEL", "a")
    finally:
        blocking.close()
        on_a_loop.close()


def test_a_woken_waiter_wakes_the_next(server: RunningServer) -> None:
    """A hundred threads, one lock, and pauses so long that only a wake-up helps."""
    client = redis.Redis.from_url(server.url)
    inside, most = 0, 0
    done: list[int] = []

    def work(number: int) -> None:
        nonlocal inside, most
        with Lock(client, "a", timeout=20, sleep=2):
            inside += 1
            most = max(most, inside)
            time.sleep(0.001)
            inside -= 1
            done.append(number)

    team = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(100)]
    started = time.monotonic()
    for member in team:
        member.start()
    for member in team:
        member.join(60)
    assert len(done) == 100
    assert most == 1
    assert time.monotonic() - started < 40
    assert not Lock(client, "a", timeout=1)._access.line.waiting
    client.close()


def test_a_sleeping_waiter_holds_no_connection(private_server: RunningServer) -> None:
    client = redis.Redis.from_url(private_server.url)
    private_server.command("SET", "a", "somebody")
    team = [start(lambda: Lock(client, "a", timeout=20, sleep=0.3).acquire(blocking_timeout=1)) for _ in range(40)]
    access = Lock(client, "a", timeout=20)._access
    wait_for(lambda: len(access.line.waiting.get(b"a", ())) == 40)
    wait_for(lambda: access.transport.idle)
    most = len(private_server.command("CLIENT", "LIST").splitlines())
    assert [each.result(20) for each in team] == [False] * 40
    assert most <= 42
    client.close()


@pytest.mark.parametrize("how", ["stopped", "black hole"])
def test_a_silent_server_costs_the_time_to_wait_and_no_more(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace, how: str
) -> None:
    face = open_face(proxy.url)
    with face.lock("a", timeout=20):
        pass
    if how == "stopped":
        private_server.pause()
    else:
        proxy.black_hole()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        face.lock("a", timeout=20).acquire(blocking_timeout=1)
    assert 0.9 < time.monotonic() - started < 4
    private_server.resume()
    proxy.heal()
    wait_for(lambda: not private_server.command("EXISTS", "a"), what="what a stopped server had heard to be undone")


def test_a_server_that_is_not_there_is_a_connection_error(open_face: OpenFace, proxy: Proxy) -> None:
    proxy.refuse()
    started = time.monotonic()
    with pytest.raises(ConnectionError, match="no answer from redis://"):
        open_face(proxy.url).lock("a", timeout=20).acquire()
    assert time.monotonic() - started < 10


def test_a_waiter_goes_on_waiting_through_a_restart(private_server: RunningServer, open_face: OpenFace) -> None:
    face = open_face(private_server.url)
    private_server.command("SET", "a", "somebody")
    waiter = start(lambda: face.lock("a", timeout=20, sleep=0.02).acquire())
    time.sleep(0.1)
    private_server.kill()
    time.sleep(0.2)
    assert not waiter.done()
    private_server.restart()
    assert waiter.result(20) is True


def test_a_poll_is_one_request(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> None:
    face = open_face(proxy.url)
    private_server.command("SET", "a", "somebody")
    lock = face.lock("a", timeout=20, sleep=0.01)
    assert lock.acquire(blocking_timeout=1) is False
    proxy.clear()
    assert lock.acquire(blocking_timeout=1) is False
    verbs = {request.words[0] for request in proxy.requests}
    assert verbs == {b"SET", b"EVALSHA"}
    assert all(asks(plain_store.TAKE)(request.raw) for request in proxy.requests if request.words[0] == b"EVALSHA")
