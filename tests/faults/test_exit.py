"""The end of the interpreter: no hang, whatever is still open, and no output if all was closed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.faults import ending
from tests.support.processes import StartChild
from tests.support.servers import RunningServer


@pytest.mark.parametrize(
    "program",
    [
        ending.with_held_leases,
        ending.with_waiting_threads,
        ending.with_a_blocked_callback,
        ending.with_an_unclosed_async_client,
    ],
    ids=lambda program: program.__name__,
)
def test_a_program_ends_at_once(
    private_server: RunningServer, start_child: StartChild, program: Callable[[str], None]
) -> None:
    child = start_child(program, private_server.url)
    child.expect("end", within=20)
    started = time.monotonic()
    assert child.wait(10) == 0, child.errors
    assert time.monotonic() - started < 5
    assert "Fatal" not in child.errors
    assert "Traceback" not in child.errors


def test_a_program_that_closes_properly_says_nothing(private_server: RunningServer) -> None:
    program = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.faults.ending", "closing_properly"]
    done = subprocess.run(
        [*program, private_server.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_one_client_serves_one_loop_after_another_and_two_at_once(
    private_server: RunningServer, start_child: StartChild
) -> None:
    child = start_child(ending.two_runs_and_two_loops_at_once, private_server.url)
    assert child.lines(30) == ["441"], child.errors
    assert child.wait() == 0
    assert child.errors == ""
