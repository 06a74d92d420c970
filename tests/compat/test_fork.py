"""A forked child owns nothing of its parent's, and can take locks of its own."""

from __future__ import annotations

import pytest

from tests.compat import forking
from tests.support.processes import Child, StartChild
from tests.support.servers import RunningServer


def all_well(child: Child, *expected: str) -> None:
    assert child.lines(30) == list(expected), child.errors
    assert child.wait() == 0, child.errors


@pytest.mark.parametrize(("ending", "code"), [("exit", 7), ("leave", 1)])
def test_a_child_that_leaves_its_parents_block_releases_nothing(
    private_server: RunningServer, start_child: StartChild, ending: str, code: int
) -> None:
    """The child's own exception propagates; without one, leaving the block raises that it does not hold the lock."""
    child = start_child(forking.leave_a_block, private_server.url, ending)
    all_well(child, f"child {code}", "left")
    assert ("this is a forked child" in child.errors) is (ending == "leave")


def test_a_child_takes_locks_on_connections_of_its_own(private_server: RunningServer, start_child: StartChild) -> None:
    all_well(start_child(forking.a_life_of_its_own, private_server.url), "child waits", "child 0", "values 200")


def test_a_child_and_its_parent_do_not_share_values(private_server: RunningServer, start_child: StartChild) -> None:
    all_well(start_child(forking.values_are_not_shared, private_server.url), "shared 0")


def test_a_child_of_a_loop_has_a_loop_of_its_own(private_server: RunningServer, start_child: StartChild) -> None:
    all_well(start_child(forking.a_loop_of_its_own, private_server.url), "child got it", "child 0", "parent goes on")
