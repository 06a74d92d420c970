"""The very first use, interrupted by something: a signal handler that takes a lock, a Ctrl-C, a fork."""

from __future__ import annotations

from tests.faults import starting
from tests.faults.test_fork import all_well
from tests.support.processes import StartChild
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
