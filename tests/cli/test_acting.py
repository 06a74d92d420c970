"""`holdtight release --force`, `audit`, `doctor`: what operators do, and what the exit code says."""

from __future__ import annotations

import json

import pytest

from holdtight import Locks, NotOwner
from holdtight.cli.main import run_cli
from tests.cli.conftest import ME, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, StartServer


def test_a_lock_is_taken_from_its_holder_and_the_act_is_kept(run: Run, locks: Locks) -> None:
    lease = locks.lock("nightly", label="cron").acquire()
    code, out, err = run("release", "nightly", "--force", "--reason", "hangs since 4:12", "--by", "ops@desk")
    assert (code, err) == (0, "")
    assert out.startswith(f"'nightly' was taken from {ME} (cron); nobody waits for it. Fence ")
    assert int(out.split("Fence ")[1].split()[0]) > lease.fence
    with pytest.raises(NotOwner):
        lease.release()
    header, row = run("audit")[1].splitlines()
    assert header.split()[:3] == ["AT", "ACTION", "NAME"]
    assert row.split("  ")[-1] == "hangs since 4:12"
    [record] = json.loads(run("audit", "--json", "--name", "nightly")[1])
    assert (record["by"], record["reason"], record["name"]) == ("ops@desk", "hangs since 4:12", "nightly")
    assert run("audit", "--json", "--name", "other")[1] == "[]\n"


def test_what_others_have_written_into_the_audit_makes_no_rows_of_its_own(
    run: Run, server: RunningServer, locks: Locks
) -> None:
    lease = locks.lock("nightly").acquire()
    locks.force_release("nightly", reason="it-hangs")
    [(_, fields)] = server.command("XRANGE", "ht:audit", "-", "+")
    server.command("XADD", "ht:audit", "*", *(word.replace("it-hangs", r"it\n2026-11-20\tbless") for word in fields))
    rows = run("audit")[1].splitlines()[1:]
    assert [row.split("  ")[-1] for row in rows] == [r"it\n2026-11-20\tbless", "it-hangs"]
    with pytest.raises(NotOwner):
        lease.release()


def test_a_limit_beyond_all_records_gives_all(run: Run, locks: Locks) -> None:
    lease = locks.lock("nightly").acquire()
    locks.force_release("nightly", reason="test")
    assert len(run("audit", "-n", str(10**30))[1].splitlines()) == 2
    with pytest.raises(NotOwner):
        lease.release()


def test_as_json_the_record_is_one_object_with_the_next_holder(run: Run, locks: Locks) -> None:
    lease = locks.lock("nightly").acquire()
    record = json.loads(run("--json", "release", "nightly", "--force", "--reason", "x", "--owner", lease.owner)[1])
    assert record["holders"][0]["owner"] == lease.owner
    assert record["next"] is None
    with pytest.raises(NotOwner):
        lease.release()


def test_nothing_held_is_1_and_no_record(run: Run) -> None:
    assert run("release", "nightly", "--force", "--reason", "x") == (1, "", "holdtight: 'nightly' is not held\n")
    assert run("audit", "--json")[1] == "[]\n"


@pytest.mark.parametrize(
    "words",
    [
        ["release", "x", "--reason", "y"],
        ["release", "x", "--force"],
        ["release", "x", "--force", "--reason", ""],
        ["release", "x", "--force", "--reason", "a\nb"],
        ["release", "x", "--force", "--reason", "y", "--owner", "nobody"],
        ["audit", "-n", "0"],
        ["doctor", "--fail-on", "note"],
    ],
    ids=lambda words: " ".join(words).replace("\n", " "),
)
def test_wrong_orders_are_64_and_one_line(run: Run, words: list[str]) -> None:
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (64, "", 1)


def test_doctor_tells_what_is_wrong_and_its_exit_code_how_bad_it_is(
    start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server: RunningServer = start_server()

    def examine(*words: str) -> tuple[int, str]:
        """Again, if the machine was so busy that the server was rightly called slow."""
        found: list[tuple[int, str]] = []

        def is_quick() -> bool:
            code = run_cli(["doctor", "--url", server.url, *words])
            found.append((code, capsys.readouterr().out))
            return "SLOW" not in found[-1][1]

        wait_for(is_quick, what="a server that answers quickly")
        return found[-1]

    server.command("CONFIG", "SET", "appendonly", "yes")
    assert examine() == (0, "nothing found: all is well\n")
    server.command("CONFIG", "SET", "appendonly", "no")
    code, out = examine()
    assert code == 1
    assert out.startswith("WARNING NO_PERSISTENCE at redis://")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["seen:", "means:", "change:"]
    assert examine("--fail-on", "error")[0] == 0
    code, out = examine("--json")
    assert code == 1
    assert [finding["id"] for finding in json.loads(out)] == ["NO_PERSISTENCE"]


def test_a_doctor_who_reaches_no_server_is_69(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["doctor", "--url", "redis://127.0.0.1:1"]) == 69
    assert "UNREACHABLE" in capsys.readouterr().out
