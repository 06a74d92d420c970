"""`holdtight run --at-least D`: a command that was started lately is skipped."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from holdtight import Locks
from holdtight.stores.redis.records import BEGIN
from tests.cli.conftest import Cli
from tests.faults.clients import asks
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


def last(locks: Locks) -> Any:
    return locks.once("nightly", at_least=60)(lambda: None).last()


def test_a_command_that_was_started_lately_is_skipped_here_and_in_python(cli: Cli, locks: Locks) -> None:
    first = cli("run", "--at-least", "1h", "--label", "cron", "nightly", "--", "sh", "-c", "echo ran; exit 3")
    first.expect("ran")
    assert first.wait() == 3
    run = last(locks)
    assert (run.state, run.label) == ("failed", "cron")
    assert "exit status 3" in run.error
    skipped = [cli("run", "--at-least", "1h", *more, "nightly", "--", "echo", "no") for more in ([], ["-n", "-E", "0"])]
    assert [each.wait() for each in skipped] == [75, 0]
    assert [each.lines() for each in skipped] == [[], []]
    for each in skipped:
        assert "'nightly' skipped: it has been started by" in each.errors
    assert not locks.once("nightly", at_least=3600)(lambda: "ran")()
    run_without = cli("run", "nightly", "--", "echo", "ran")
    run_without.expect("ran")
    assert run_without.wait() == 0
    assert not locks.inspect("nightly").holders


def test_one_that_waits_decides_by_the_record_of_the_run_before(cli: Cli, locks: Locks) -> None:
    first = cli("run", "--at-least", "1h", "nightly", "--", "sh", "-c", "echo in; read line")
    first.expect("in")
    second = cli("run", "--at-least", "1h", "nightly", "--", "echo", "no")
    at_once = cli("run", "-n", "--at-least", "1h", "nightly", "--", "echo", "no")
    assert at_once.wait() == 75
    wait_for(lambda: locks.inspect("nightly").waiting == 1)
    first.send("go")
    assert (first.wait(), second.wait()) == (0, 75)
    assert (second.lines(), last(locks).state) == ([], "done")


def test_a_command_that_cannot_be_started_does_not_count(cli: Cli, locks: Locks) -> None:
    assert cli("run", "--at-least", "1h", "nightly", "--", "/does/not/exist").wait() == 127
    assert last(locks) is None
    assert cli("run", "--at-least", "1h", "nightly", "--", "true").wait() == 0


def test_a_signal_before_the_command_has_started_takes_the_record_back(
    start_cli: Cli, private_server: RunningServer, proxy: Proxy
) -> None:
    private_server.command("SCRIPT", "LOAD", BEGIN.body)
    held = proxy.hold_reply(asks(BEGIN))
    run = start_cli("run", "--at-least", "1h", "nightly", "--", "echo", "no", url=proxy.url)
    held.wait()
    with Locks(private_server.url) as locks:
        assert last(locks).state == "running"
        run.signal(signal.SIGTERM)
        wait_for(lambda: last(locks) is None, what="the record to go")
        held.release()
        assert (run.wait(), run.lines()) == (-signal.SIGTERM, [])
        wait_for(lambda: not locks.inspect("nightly").holders)


def test_eight_hosts_fire_together_and_one_runs(cli: Cli) -> None:
    runs = [cli("run", "-n", "--at-least", "1h", "nightly", "--", "echo", "ran") for _ in range(8)]
    assert sorted(run.wait() for run in runs) == [0] + [75] * 7
    assert sum("ran" in run.lines() for run in runs) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-s", "--at-least", "1h"], "cannot go with -s"),
        (["--at-least", "0"], "out of range"),
        (["--at-least", "400000h"], "out of range"),
        (["--at-least", "soon"], "is no duration"),
        (["--url", "redis://a", "--url", "redis://b", "--url", "redis://c", "--at-least", "1h"], "share no data"),
    ],
)
def test_wrong_usage(cli: Cli, words: list[str], text: str) -> None:
    run = cli("run", *words, "nightly", "--", "true")
    assert run.wait() == 64
    assert text in run.errors
