"""`max_connections`: a connection that is not in use is there for the next caller, whatever happened to the last."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial

import pytest

from holdtight import Locks
from tests.faults.test_interrupted_anywhere import DROPPED, block, handle
from tests.support.interrupts import Moments, interrupted_at
from tests.support.servers import RunningServer

TTL = 3


@DROPPED
@pytest.mark.parametrize("use", [block, handle], ids=lambda use: use.__name__)
def test_an_interrupt_takes_no_connection_from_later_callers(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch, use: Callable[[Locks, str], None]
) -> None:
    monkeypatch.setattr("holdtight.sync.driver.UNDO_SECONDS", 0.1)  # each lost reply costs this wait
    with Locks(private_server.url, ttl=TTL, max_connections=1) as locks:
        moments = Moments()
        for number in itertools.count():
            name = f"n{number}"
            use(locks, name)  # so that the interrupt hits the usual path
            if interrupted_at(moments, partial(use, locks, name), spared=frozenset(["__exit__"])) is None:
                break
            locks.lock(f"free {number}", ttl=10).acquire().release()
        assert number > 50


def test_a_connection_that_comes_back_while_one_looks_for_it_is_found(private_server: RunningServer) -> None:
    with Locks(private_server.url, max_connections=1) as locks:
        transport = locks.transport
        link = transport.take(1)

        class Room(threading.Condition):
            """The caller begins to wait a moment after the connection was given back."""

            def __enter__(self) -> bool:
                if link not in given:
                    given.append(link)
                    transport.give(link)
                return super().__enter__()

        given: list[object] = []
        transport._room = Room()
        assert transport.take(0.01) is link
        transport.give(link)
