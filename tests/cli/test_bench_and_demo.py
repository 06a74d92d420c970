"""`holdtight bench` and `holdtight demo`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.cli import demo
from tests.cli.conftest import Cli, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, StartServer


def test_bench_measures_and_leaves_nothing_that_lasts(run: Run, server: RunningServer) -> None:
    code, out, _ = run("bench", "--json", "--seconds", "0.05")
    assert code == 0
    found = json.loads(out)
    assert len(found["rows"]) == 3
    assert all(row["per_second"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"] for row in found["rows"])
    assert found["server"] == server.url
    assert [name for name in server.command("KEYS", "*bench*") if server.command("TTL", name) < 0] == []
    assert "a pair, one thread" in run("bench", "--seconds", "0.02")[1]


def test_bench_does_not_load_a_server_elsewhere_unless_told_to(run: Run) -> None:
    for url in ("redis://192.0.2.1", "redis+cluster://127.0.0.1:7000,192.0.2.1:7001"):
        code, _, err = run("bench", "--url", url)
        assert code == 64
        assert "--yes" in err


def test_the_demo_loses_counts_without_a_lock_and_none_with_one(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "ROUNDS", 40)
    code, out, _ = run("demo")
    without, with_lock = out.splitlines()
    assert code == 0
    assert "160 counted, 160 there, 0 lost" in with_lock
    assert ", 0 lost" not in without


def test_no_url_of_the_demo_shows_in_ps(start_cli: Cli, start_server: StartServer) -> None:
    server = start_server(password="a-secret")
    run = start_cli("demo", url=server.url)

    def workers() -> list[str]:
        found: list[str] = []
        for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
            with suppress(FileNotFoundError):
                found.append(Path(f"/proc/{pid}/cmdline").read_text())
        return [line for line in found if "demo:counter" in line]

    shown: list[str] = wait_for(workers, what="a worker of the demo")
    assert "redis://" not in "".join(shown)
    assert "a-secret" not in "".join(shown)


def test_the_demo_counts_on_the_servers_and_in_the_namespace_that_it_was_given(
    run: Run, start_server: StartServer, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "ROUNDS", 2)
    servers = [start_server() for _ in range(3)]
    with Locks([each.url for each in servers], namespace="mine") as locks:
        locks.bless()
    assert run("demo", "--namespace", "mine", *(word for each in servers for word in ("--url", each.url)))[0] == 0
    for each in servers:
        assert [key for key in each.keys("*counter*") if not key.startswith("mine:")] == []
        assert each.keys("mine:*counter*")
    assert server.keys() == []
    monkeypatch.delenv("HOLDTIGHT_URL")
    monkeypatch.setenv("REDIS_URL", server.url)
    assert run("demo")[0] == 0
    assert server.keys("ht:*counter*")


@pytest.mark.parametrize("words", [("--timeout", "0"), ("--url", "http://x"), ("--namespace", "")])
def test_the_demo_says_once_what_is_wrong_with_its_options(run: Run, words: tuple[str, str]) -> None:
    code, out, err = run("demo", *words)
    assert (code, out, err.count("\n")) == (64, "", 1)
