"""`holdtight lead NAME -- COMMAND`: the command runs where the leader is, ends with the term, and starts again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from holdtight import Locks
from tests.cli.conftest import Cli
from tests.cli.witness import Witness
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, StartServer

SAY = ["sh", "-c", "echo $HOLDTIGHT_FENCE ${HOLDTIGHT_LEAD_AGAIN:-}; read line"]


@pytest.fixture
def private(start_server: StartServer) -> RunningServer:
    return start_server()


def test_it_ends_with_the_command_and_the_next_leads(cli: Cli, locks: Locks) -> None:
    first = cli("lead", "poller", "--label", "one", "--", "sh", "-c", "echo in; read line; exit 7")
    first.expect("in")
    leader = locks.leader("poller")
    now = leader.current()
    assert now is not None
    assert now.label == "one"
    second = cli("lead", "poller", "--", *SAY)
    wait_for(lambda: len(leader.contenders()) == 1)
    first.send("go")
    assert first.wait() == 7
    assert int(second.wait_line()) > now.fence
    second.signal(signal.SIGTERM)
    assert second.wait() == 128 + signal.SIGTERM
    assert leader.current() is None


def test_a_term_that_is_lost_ends_the_command_and_it_campaigns_again(cli: Cli, locks: Locks) -> None:
    run = cli("lead", "--ttl", "3s", "poller", "--", *SAY)
    fences = [int(run.wait_line())]
    for _ in range(2):
        locks.force_release("poller", reason="test")
        fences.append(int(run.wait_line()))
    assert fences == sorted(set(fences))
    assert run.errors.count("campaigning for 'poller' again") == 2
    run.send("go")
    assert run.wait() == 0


def test_a_silent_server_ends_the_command_with_the_term_and_it_leads_again_later(
    start_cli: Cli, private: RunningServer, tmp_path: Path
) -> None:
    witness = Witness(tmp_path)  # does not heed SIGTERM
    run = start_cli("lead", "--ttl", "3s", "--timeout", "1s", "poller", "--", *witness.command, url=private.url)
    wait_for(lambda: witness.runs, what="the command runs")
    private.pause()
    wait_for(lambda: "campaigning on" in run.errors, within=60)
    ended = time.time()
    assert witness.is_silent_since(ended)
    private.resume()
    wait_for(lambda: max(witness.stamps()) > ended, within=60, what="the command runs again")
    run.signal(signal.SIGKILL)  # the guardian ends the command
    wait_for(lambda: witness.is_silent_since(time.time()), within=60)


def test_one_that_is_asked_to_end_while_its_term_is_lost_does_not_campaign_again(
    start_cli: Cli, private: RunningServer
) -> None:
    stubborn = "trap 'echo told' TERM; echo in; while :; do sleep 0.05; done"
    words = ("lead", "--ttl", "9s", "--kill-after", "3s", "poller", "--", "sh", "-c", stubborn)
    run = start_cli(*words, url=private.url)
    run.expect("in")
    private.command("DEL", "ht:{poller}")
    run.expect("told", within=30)
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 76
    assert "again" not in run.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_campaign(cli: Cli, locks: Locks, number: int) -> None:
    with locks.lock("poller"):
        run = cli("lead", "poller", "--", "true")
        wait_for(lambda: locks.inspect("poller").waiting == 1)
        run.signal(number)
        assert run.wait() == -number
        assert locks.inspect("poller").waiting == 0


def test_what_is_wrong_shows_at_once(cli: Cli, start_cli: Cli, locks: Locks) -> None:
    with locks.lock("poller"):
        assert cli("lead", "-n", "poller", "--", "true").wait() == 75
    warn = cli("lead", "--on-lost", "warn", "poller", "--", "true")
    assert warn.wait() == 64
    nowhere = start_cli("lead", "poller", "--timeout", "200ms", "--", "true", url="redis://127.0.0.1:1")
    assert nowhere.wait() == 69
    assert "campaigning on" not in nowhere.errors
