"""What the command line says on stderr, and when it says nothing: -q, --json, -E, -v."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdtight import Locks
from tests.cli.conftest import CLI, Cli, Run
from tests.support.processes import Child, wait_for
from tests.support.servers import RunningServer

REFUSED = """
from holdtight import errors
from holdtight.cli import run
kinds = {
    "QUEUE_FULL": errors.QueueFull.at("nightly", 5, 5),
    "DEADLOCK": errors.DeadlockDetected.with_self("nightly", "thread"),
    "CLOCK_DRIFT": errors.ClockDrift.on("nightly", 0.1, 0.2),
    "LOCK_TIMEOUT": errors.LockTimeout.after("nightly", 0.1, None, 0),
    "OUT_OF_MEMORY": errors.OutOfMemory.because("nightly", "db1", "OOM"),
}
def refuse(*_, **__):
    import os
    raise kinds[os.environ["REFUSAL"]]
run._acquired = refuse
"""


def said(run: Child) -> list[dict[str, str]]:
    return [json.loads(line) for line in run.errors.splitlines()]


@pytest.fixture
def refused() -> Iterator[Cli]:
    """`holdtight WORD…` that gets this refusal in place of its lock."""
    with ExitStack() as stack:

        def begin(refusal: str, *words: str) -> Child:
            env = {"PYTHONPATH": ":".join(sys.path), "HOLDTIGHT_URL": "redis://127.0.0.1:1", "REFUSAL": refusal}
            return stack.enter_context(Child([sys.executable, "-P", "-c", REFUSED + CLI, *words], env))

        yield begin


def test_the_code_of_conflict_stands_for_every_refusal_that_is_75_and_for_no_other(refused: Cli) -> None:
    words = ("run", "-E", "3", "nightly", "--", "true")
    runs = {code: refused(code, *words) for code in ("LOCK_TIMEOUT", "QUEUE_FULL", "DEADLOCK", "CLOCK_DRIFT")}
    elsewhere = refused("OUT_OF_MEMORY", *words)
    for code, run in runs.items():
        assert run.wait() == 3, code
        assert run.errors.startswith("holdtight: lock 'nightly'")
        assert run.errors.count("\n") == 1
    assert elsewhere.wait() == 69


def test_a_lock_that_is_not_acquired_has_its_code_as_json_too_and_is_silent_if_asked_to_be(
    cli: Cli, locks: Locks
) -> None:
    with locks.lock("nightly"):
        as_json, usual, silent = (
            cli("run", "-n", *words, "nightly", "--", "true") for words in (("--json", "-E", "3"), ("--json",), ("-q",))
        )
        assert (as_json.wait(), usual.wait(), silent.wait()) == (3, 75, 75)
    assert [each["error"] for run in (as_json, usual) for each in said(run)] == ["LOCK_TIMEOUT"] * 2
    assert silent.errors == ""


def test_a_wait_that_is_over_and_a_lock_that_nobody_holds_are_said_as_json(run: Run, locks: Locks) -> None:
    with locks.lock("nightly"):
        code, out, err = run("wait", "--json", "-w", "0", "nightly")
        assert (code, out, json.loads(err)) == (
            75,
            "",
            {"error": "LOCK_TIMEOUT", "message": "'nightly' is not free after 0 s"},
        )
        assert run("wait", "-q", "-w", "0", "nightly") == (75, "", "")
    code, out, err = run("release", "--json", "nightly", "--force", "--reason", "x")
    assert (code, out, json.loads(err)) == (1, "null\n", {"error": "NOT_HELD", "message": "'nightly' is not held"})
    assert run("release", "-q", "nightly", "--force", "--reason", "x") == (1, "", "")


@pytest.mark.parametrize("flag", ["--json", "-q"])
def test_a_loss_is_said_as_json_or_not_at_all(cli: Cli, locks: Locks, flag: str) -> None:
    run = cli("run", flag, "--ttl", "3", "nightly", "--", "sh", "-c", "echo in; read line")
    run.expect("in")
    locks.force_release("nightly", reason="test")
    assert run.wait() == 76
    codes = [(each["error"], "(FORCED)" in each["message"]) for each in said(run)]
    assert codes == ([("WATCHDOG_RENEWAL_FAILED", True)] if flag == "--json" else [])


def test_quiet_leaves_out_nothing_that_the_exit_code_does_not_say(
    start_cli: Cli, private_server: RunningServer, tmp_path: Path
) -> None:
    flag, url = tmp_path / "flag", private_server.url
    leaving = f"until [ -e {flag} ]; do sleep 0.05; done >/dev/null 2>&1 &"
    missing, left = (
        start_cli("run", "-q", "a", "--", "/does/not/exist", url=url),
        start_cli("run", "-q", "b", "--", "sh", "-c", leaving, url=url),
    )
    assert (missing.wait(), left.wait()) == (127, 0)
    assert "No such file" in missing.errors
    assert "are still running" in left.errors
    flag.touch()

    reads = ("sh", "-c", "echo in; read line")
    warned = start_cli("run", "-q", "--on-lost", "warn", "--ttl", "3", "c", "--", *reads, url=url)
    leading = start_cli("lead", "-q", "--ttl", "3", "d", "--", *reads, url=url)
    warned.expect("in")
    leading.expect("in")
    with Locks(url) as locks:
        locks.force_release("c", reason="test")
        locks.force_release("d", reason="test")
    leading.expect("in")
    assert leading.errors == "holdtight: campaigning for 'd' again\n"
    wait_for(lambda: "goes on without the lock" in warned.errors)
    for run in (warned, leading):
        run.send("go")
        assert run.wait() == 0

    alone = start_cli("run", "-q", "e", "--", *reads, url=url)
    alone.expect("in")
    private_server.kill()
    alone.send("go")
    assert alone.wait() == 0
    assert "was not given back" in alone.errors


def test_what_is_said_of_the_command_and_of_a_campaign_is_json_as_well(cli: Cli, locks: Locks, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    loop = f"while [ ! -e {flag} ]; do sleep 0.05; done >/dev/null 2>&1 &"
    missing, leaving = (
        cli("run", "--json", "a", "--", "/does/not/exist"),
        cli("run", "--json", "b", "--", "sh", "-c", loop),
    )
    leading = cli("lead", "--json", "--ttl", "3", "poller", "--", "sh", "-c", "echo in; read line")
    leading.expect("in")
    locks.force_release("poller", reason="test")
    leading.expect("in")
    leading.send("go")
    assert (missing.wait(), leaving.wait(), leading.wait()) == (127, 0, 0)
    assert [each.get("error") for each in (*said(missing), *said(leaving))] == ["NOT_STARTED", "STILL_RUNNING"]
    assert [each.get("error", each["message"]) for each in said(leading)] == [
        "WATCHDOG_RENEWAL_FAILED",
        "campaigning for 'poller' again",
    ]
    flag.touch()


@pytest.mark.parametrize("words", [("--json", "fly"), ("ls", "--fly", "--json"), ("ls", "--json", "--timeout", "soon")])
def test_a_line_that_cannot_be_read_is_answered_as_json_wherever_that_was_asked_for(
    run: Run, words: tuple[str, ...]
) -> None:
    code, out, err = run(*words)
    assert (code, out, json.loads(err)["error"]) == (64, "", "USAGE")
    assert "{" not in run("run", "x", "--fly", "--", "--json")[2], "that is the command's"


def test_verbose_logs_and_shows_where_an_error_came_from(start_cli: Cli, cli: Cli) -> None:
    nobody = start_cli("ls", "-v", url="redis://:secret@127.0.0.1:1")
    logged = cli("run", "-v", "nightly", "--", "true")
    assert (nobody.wait(), logged.wait()) == (69, 0)
    assert "holdtight: no answer from redis://" in nobody.errors
    assert "Traceback" in nobody.errors
    assert "secret" not in nobody.errors
    wait_for(lambda: "DEBUG" in logged.errors, what="what was logged")
    assert "DEBUG acquired nightly" in logged.errors
