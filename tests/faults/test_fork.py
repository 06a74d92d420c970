"""Fault 5 of the peers: a forked child owns nothing of its parent's, and can take locks of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import forking
from tests.faults.quorum import StartNodes
from tests.support.processes import Child, StartChild
from tests.support.servers import RunningServer


def all_well(child: Child, *expected: str) -> None:
    assert child.lines(30) == list(expected), child.errors
    assert child.wait() == 0, child.errors


@pytest.mark.parametrize(("ending", "code"), [("_exit", 0), ("exit", 0), ("leave", 1)])
def test_a_child_forked_in_a_block_neither_releases_nor_renews(
    private_server: RunningServer, start_child: StartChild, ending: str, code: int
) -> None:
    """However it ends: at once, through the block with an exception of its own, or by leaving the block."""
    child = start_child(forking.in_a_block, private_server.url, ending)
    all_well(child, f"child {code}", "released")
    if ending == "leave":
        assert "LeaseLost" in child.errors
        assert "forked from the holder" in child.errors


def test_a_child_forked_in_an_async_block_neither_releases_nor_renews(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(forking.in_an_async_block, private_server.url), "child 0", "released")


def test_children_forked_out_of_busy_threads_have_locks_of_their_own(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(forking.out_of_busy_threads, private_server.url), "children [0]")


def test_a_forked_pool_shares_the_clients_settings_and_nothing_else(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path
) -> None:
    all_well(start_child(forking.in_a_pool, private_server.url, str(tmp_path / "counter")), "200 200")


def test_a_fork_takes_nobody_out_of_the_line(private_server: RunningServer, start_child: StartChild) -> None:
    all_well(start_child(forking.while_somebody_waits, private_server.url), "served")


@pytest.mark.parametrize("count", [1, 3])
def test_a_child_keeps_no_connection_of_threads_that_it_does_not_have(
    start_nodes: StartNodes, start_child: StartChild, count: int
) -> None:
    """On one server, and on a quorum: a connection that a child kept would outlive its parent."""
    all_well(start_child(forking.out_of_waiting_threads, *start_nodes(count).urls), "child 0")


def test_a_child_waits_for_its_parents_lock_like_anyone_else(
    private_server: RunningServer, start_child: StartChild
) -> None:
    all_well(start_child(forking.the_same_lock_in_the_child, private_server.url), "child 0")
