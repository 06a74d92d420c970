"""The very first use, interrupted by something: a signal handler that takes a lock, a Ctrl-C, a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from holdtight import Locks
from holdtight.base import process
from holdtight.sync.node_connection import CallerWakePipe
from tests.faults import starting
from tests.faults.test_fork import all_well
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer


def test_a_signal_handler_takes_a_lock_while_the_keeper_is_started(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(starting.by_a_handler, private_server.url), "handled", "done")


def test_an_interrupt_while_the_keeper_is_started_leaves_one_keeper(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(starting.by_an_interrupt, private_server.url), "interrupted", "done")


def test_a_fork_while_another_thread_reads_tls_settings_does_not_stop_the_child(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(starting.by_a_fork, private_server.url), "child 0")


def test_an_interrupt_before_a_thread_connects_to_a_node_does_not_leave_it_out_for_ever(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(target: Callable[[], None], name: str) -> threading.Thread:
        raise KeyboardInterrupt

    with (
        Locks([private_server.url, "redis://127.0.0.1:1", "redis://127.0.0.1:2"]) as locks,
        closing(CallerWakePipe()) as wake_pipe,
    ):
        pool = locks.groups.pools[0]
        with monkeypatch.context() as patch:
            patch.setattr(process, "start_thread", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pool.connect_soon(wake_pipe, pool.clock())
        assert pool.connect_soon(wake_pipe, pool.clock())
        connection = wait_for(pool.take, what="a connection to the node")
        pool.idle.append(connection)
