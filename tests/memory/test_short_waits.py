"""A wait that ends before the first heartbeat: nothing is left behind when it fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import hiredis
import pytest

from holdtight import Lease, Locks, LockTimeout, Unavailable
from holdtight.base.plan import LinkDown
from tests.faults.clients import start
from tests.support.processes import wait_for

names = (f"memory://short-{number}" for number in itertools.count())


class Pair:
    """A holder, and a waiter that has held the lock before."""

    def __init__(self, stack: ExitStack) -> None:
        url = next(names)
        self.holder, self.client = (stack.enter_context(Locks(url)) for _ in range(2))
        self.client.lock("warm").acquire().release()
        self.held = self.holder.lock("a", ttl=30).acquire()

    def wait(self, **options: Any) -> Future[Lease]:
        future = start(lambda: self.client.lock("a", ttl=30).acquire(**options))
        wait_for(lambda: len(self.holder.inspect("a").waiters) == 1)
        return future

    def on_confirmation(self, what: Callable[[Any], Any]) -> None:
        """`what` gets the real answer to the second request of the waiter's link, and returns the one to use."""
        (link,) = self.client.transport.idle
        call, count = link.call, itertools.count()
        link.call = lambda *given: what(call(*given)) if next(count) else call(*given)  # type: ignore[method-assign]

    def is_free(self) -> bool:
        seen = self.holder.inspect("a")
        return not seen.waiters and not seen.holders


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack)


def raised(error: BaseException) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise error

    return answer


def test_it_is_rung_and_has_the_lock(pair: Pair) -> None:
    waiter = pair.wait()
    pair.held.release()
    lease = waiter.result(10)
    assert lease.fence > pair.held.fence
    assert [each.label for each in pair.holder.inspect("a").waiters] == []
    lease.release()
    assert pair.is_free()


def test_an_error_in_place_of_the_confirmation_leaves_nothing_behind(pair: Pair) -> None:
    pair.on_confirmation(lambda reply: hiredis.ReplyError("ERR something strange"))
    waiter = pair.wait()
    pair.held.release()
    assert "something strange" in str(waiter.exception(10))
    assert pair.is_free(), "at once, and not when its claim has lapsed"


def test_an_interrupt_in_place_of_the_confirmation_leaves_nothing_behind(pair: Pair) -> None:
    pair.on_confirmation(raised(KeyboardInterrupt()))
    waiter = pair.wait()
    pair.held.release()
    assert isinstance(waiter.exception(10), KeyboardInterrupt)
    assert pair.is_free()


def test_a_confirmation_whose_answer_is_lost_is_asked_for_again(pair: Pair) -> None:
    pair.on_confirmation(raised(LinkDown("it did not answer in time", sent=True, silent=True)))
    waiter = pair.wait()
    pair.held.release()
    lease = waiter.result(10)
    assert pair.holder.inspect("a").holders[0].fence == lease.fence
    lease.release()
    assert pair.is_free()


def test_a_wait_that_ends_leaves_the_line(pair: Pair) -> None:
    error = pair.wait(wait=0.3).exception(10)
    assert isinstance(error, LockTimeout)
    assert not isinstance(error, Unavailable)
    assert not pair.holder.inspect("a").waiters
    pair.held.release()
