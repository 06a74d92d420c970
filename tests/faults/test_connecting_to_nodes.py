"""Blocking callers that need a connection to a node of a quorum, and the threads that open them."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from holdtight import Locks
from holdtight.base import process
from holdtight.stores.redis.quorum_place import NodePlace
from holdtight.sync.node_connection import CallerWakePipe, NodeConnection, Pool
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


@pytest.fixture
def pool(private_server: RunningServer) -> Iterator[Pool]:
    """That of the only node that lives."""
    with Locks([private_server.url, "redis://127.0.0.1:1", "redis://127.0.0.1:2"]) as locks:
        yield locks.groups.pools[0]


@pytest.fixture
def wake_pipe() -> Iterator[CallerWakePipe]:
    with closing(CallerWakePipe()) as pipe:
        yield pipe


def taken(pool: Pool, wake_pipe: CallerWakePipe) -> NodeConnection:
    """As a caller gets a connection that it has asked for."""
    connection = wait_for(lambda: pool.take(wake_pipe), what="a connection to the node")
    assert isinstance(connection, NodeConnection)
    pool.idle.append(connection)  # the pool closes it
    return connection


def count_opened(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    opened, really = [], pool.place.open

    def open_and_count(timeout: float) -> Any:
        opened.append(timeout)
        return really(timeout)

    monkeypatch.setattr(pool.place, "open", open_and_count)
    return opened


def threads_that_connect() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "holdtight-connect"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_while_a_thread_is_started_does_not_leave_the_node_out_for_ever(
    pool: Pool, wake_pipe: CallerWakePipe, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    really = process.start_thread

    def interrupted(target: Callable[[], None], name: str) -> threading.Thread:
        if when == "after":
            really(target, name)
        raise KeyboardInterrupt

    opened = count_opened(pool, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(process, "start_thread", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.connect_soon(wake_pipe, pool.clock())
    pool.stop_waiting(wake_pipe)
    wait_for(lambda: not threads_that_connect(), what="the thread to end")
    assert len(opened) == (1 if when == "after" else 0)
    while (left := pool.take()) is not None:
        left.fail("it is not wanted any more", resting=True)
    for number in range(3):
        assert pool.connect_soon(wake_pipe, pool.clock()), "a thread connects"
        wait_for(lambda: not threads_that_connect(), what="the thread to end")
        taken(pool, wake_pipe)
        pool.idle.clear()
        assert len(opened) == number + (2 if when == "after" else 1), "one connection for one caller"


def test_a_caller_that_comes_when_a_connection_is_there_is_woken_at_once(
    pool: Pool, wake_pipe: CallerWakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller that asked for it had its majority without this node."""
    opened = count_opened(pool, monkeypatch)
    with closing(CallerWakePipe()) as other:
        assert pool.connect_soon(other, pool.clock())
        pool.stop_waiting(other)
        wait_for(lambda: pool.idle and not threads_that_connect(), what="a connection that nobody waits for")
    assert pool.connect_soon(wake_pipe, pool.clock())
    assert select.select([wake_pipe.fd], [], [], 0)[0], "it need not sleep"
    taken(pool, wake_pipe)
    assert len(opened) == 1


def test_a_connection_that_is_taken_at_once_is_not_opened_twice(
    pool: Pool, wake_pipe: CallerWakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, keeper = count_opened(pool, monkeypatch), pool.place.runtime.keeper
    really, had = keeper.watch, list[NodeConnection | None]()

    def watch(place: Any) -> None:
        had.append(pool.take(wake_pipe))  # the caller was quicker than the thread
        really(place)

    monkeypatch.setattr(keeper, "watch", watch)
    assert pool.connect_soon(wake_pipe, pool.clock())
    wait_for(lambda: had and not threads_that_connect(), what="the thread to end")
    (connection,) = had
    assert connection is not None
    pool.idle.append(connection)
    assert len(opened) == 1


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_makes_room_for_the_next(
    pool: Pool, wake_pipe: CallerWakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callable for credentials may end its thread."""
    died = threading.Event()

    def die(timeout: float) -> Any:
        died.set()
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(pool.place, "open", die)
        assert pool.connect_soon(wake_pipe, pool.clock())
        assert died.wait(10)
        wait_for(lambda: select.select([wake_pipe.fd], [], [], 0)[0], what="the caller to be woken")
        wait_for(lambda: not threads_that_connect(), what="the thread to end")
    wake_pipe.drain()
    assert pool.connect_soon(wake_pipe, pool.clock())
    taken(pool, wake_pipe)


class SlowRuns(dict[bytes, NodePlace]):
    """The second thread that asks which node has reached a server is stopped there."""

    def __init__(self) -> None:
        self.asked = 0
        self.stopped, self.go_on = threading.Event(), threading.Event()

    def setdefault(self, run: bytes, place: NodePlace) -> NodePlace:
        self.asked += 1
        if self.asked == 1:
            self.stopped.set()
            assert self.go_on.wait(10)
        return super().setdefault(run, place)


def test_two_threads_that_reach_a_server_at_once_remember_whose_it_is(
    pool: Pool, private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the server would have a second vote under another name."""
    node: Any = pool.place
    runs = SlowRuns()
    monkeypatch.setattr(node, "_runs", runs)
    slow = threading.Thread(target=lambda: node.open(10).close())
    slow.start()
    assert runs.stopped.wait(10)
    node.open(10).close()
    runs.go_on.set()
    slow.join(10)
    assert list(runs.values()) == [node]
