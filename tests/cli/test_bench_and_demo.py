"""`holdtight bench` and `holdtight demo`."""

from __future__ import annotations

import json

import pytest

from holdtight.cli import demo
from tests.cli.conftest import Run
from tests.support.servers import RunningServer


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
