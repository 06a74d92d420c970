"""No command outlives the lease of `holdtight run`: the lock taken away, the server silent, `run` paused or killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from holdtight import Locks
from tests.cli.conftest import Cli, guardian_of
from tests.cli.witness import Witness
from tests.support.processes import Child, wait_for
from tests.support.servers import RunningServer, StartServer

TTL = 3.0


@pytest.fixture
def private(start_server: StartServer) -> RunningServer:
    return start_server()


def begun(start_cli: Cli, server: RunningServer, witness: Witness, *words: str) -> Child:
    run = start_cli("run", "--ttl", f"{TTL:g}s", *words, "nightly", "--", *witness.command, url=server.url)
    wait_for(lambda: witness.runs, what="the command runs")
    return run


def next_holder_alone(server: RunningServer, witness: Witness) -> None:
    """Another holder gets the lock, and from then on nothing of the command runs."""
    with Locks(server.url) as locks, locks.lock("nightly", wait=20):
        assert witness.is_silent_since(time.time())


@pytest.mark.parametrize("how", ["term", "kill"])
def test_a_lock_that_was_taken_away_ends_the_command_and_what_it_started(
    start_cli: Cli, private: RunningServer, tmp_path: Path, how: str
) -> None:
    witness = Witness(tmp_path)
    run = begun(start_cli, private, witness, "--on-lost", how, "--kill-after", "200ms")
    private.command("DEL", "ht:{nightly}")
    assert run.wait() == 76
    assert run.errors == "holdtight: the lease on 'nightly' is lost (EXPIRED); ending the command\n"
    assert witness.is_silent_since(time.time())


def test_a_command_that_heeds_sigterm_has_time_to_tidy_up(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    flag = tmp_path / "tidied"
    run = start_cli(
        "run", "--ttl", "9s", "--kill-after", "3s", "nightly", "--",
        "sh", "-c", f"trap 'sleep 0.2; touch {flag}; exit 0' TERM; echo ready; while :; do sleep 0.02; done",
        url=private.url,
    )  # fmt: skip
    run.expect("ready")
    private.command("DEL", "ht:{nightly}")
    assert run.wait() == 76, "the command says 0, and its lock was lost"
    assert flag.exists()


def test_with_warn_the_command_goes_on_and_keeps_its_exit_code(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    flag = tmp_path / "go"
    run = start_cli(
        "run", "--ttl", "3s", "--on-lost", "warn", "nightly", "--",
        "sh", "-c", f"echo ready; while [ ! -e {flag} ]; do sleep 0.02; done; exit 5",
        url=private.url,
    )  # fmt: skip
    run.expect("ready")
    private.command("DEL", "ht:{nightly}")
    wait_for(lambda: "goes on without the lock" in run.errors)
    flag.touch()
    assert run.wait() == 5


def test_a_silent_server_ends_the_command_before_the_lease_does(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    witness = Witness(tmp_path)
    run = begun(start_cli, private, witness)
    private.pause()
    assert run.wait() == 76
    ended = time.time()
    assert "no renewal has come through" in run.errors
    private.resume()
    assert witness.is_silent_since(ended)
    next_holder_alone(private, witness)


@pytest.mark.parametrize("stubborn", [True, False], ids=["stubborn", "obedient"])
def test_a_run_that_is_killed_takes_its_command_along(
    start_cli: Cli, private: RunningServer, tmp_path: Path, stubborn: bool
) -> None:
    witness = Witness(tmp_path, stubborn=stubborn)
    run = begun(start_cli, private, witness)
    run.kill()
    next_holder_alone(private, witness)


def test_a_run_that_is_paused_does_not_let_its_command_outlive_the_lease(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    witness = Witness(tmp_path)
    run = begun(start_cli, private, witness)
    run.pause()
    next_holder_alone(private, witness)
    run.resume()
    assert run.wait() == 76


def test_run_and_python_exclude_each_other_while_the_command_lasts_longer_than_the_ttl(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    witness = Witness(tmp_path, stubborn=False)
    run = begun(start_cli, private, witness)
    with Locks(private.url) as locks:
        began = locks.inspect("nightly").holders[0]
        assert locks.lock("nightly", wait=TTL * 1.5).try_acquire() is None
        assert locks.inspect("nightly").holders[0].owner == began.owner, "it was renewed"
        run.signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM
        next_holder_alone(private, witness)


def test_a_guardian_that_was_killed_is_not_missed_while_all_is_well(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    witness = Witness(tmp_path, stubborn=False)
    run = begun(start_cli, private, witness)
    os.kill(guardian_of(run), signal.SIGKILL)
    private.command("DEL", "ht:{nightly}")
    assert run.wait() == 76
    assert witness.is_silent_since(time.time())
