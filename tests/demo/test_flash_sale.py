import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.flash_sale import Result, run, sale, table
from demo.progress import Progress
from demo.service import Mode, Plan
from holdtight.embedded import Server

SMALL = Plan(services=2, tasks=8, articles=4, stock=40, requests=400, asks=400)


def test_with_holdtight_nothing_is_oversold_and_the_page_is_computed_once() -> None:
    results = {result.mode: result for result in sale(SMALL)}
    assert results[Mode.HOLDTIGHT].units_sold == SMALL.stock
    assert results[Mode.HOLDTIGHT].oversold == 0
    assert results[Mode.HOLDTIGHT].computations == 1
    # Without a lock all requests at the start find the cache empty; a local lock leaves one for each process.
    assert results[Mode.NONE].oversold > 0
    assert results[Mode.NONE].computations > 1


def test_a_failing_service_fails_the_run(tmp_path: Path) -> None:
    with Server() as server:
        url = server.url
    with pytest.raises(RuntimeError, match="ended with exit code"):
        run(Mode.HOLDTIGHT, SMALL, url, tmp_path)


def test_the_table_names_every_figure() -> None:
    text = table([Result(Mode.NONE, 1200, 200, 64, 5000.0, 0.0), Result(Mode.HOLDTIGHT, 1000, 0, 1, 4000.0, 0.25)])
    head, _, none, ours = text.splitlines()
    assert head.split("  ")[-1] == "longest wait"
    assert none.split() == ["no", "lock", "1,200", "200", "64", "5,000", "-"]
    assert ours.split() == ["holdtight", "1,000", "0", "1", "4,000", "250", "ms"]


@pytest.mark.parametrize(
    "variables",
    [pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.long), {"LC_ALL": "C", "PYTHONUTF8": "0"}],
)
def test_it_runs_where_output_knows_ascii_only(variables: dict[str, str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "demo.flash_sale", "--requests", "400", "--asks", "400"],
        env={**os.environ, "PYTHONCOERCECLOCALE": "0", **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (shown.returncode, b"Traceback" in shown.stderr) == (0, False), shown.stderr
    assert shown.stdout.isascii()
    assert b"\\" not in shown.stdout + shown.stderr  # no escapes in place of what ASCII does not have


def test_progress_is_one_plain_line_when_nobody_watches() -> None:
    out = io.StringIO()
    progress = Progress("selling", 200, out)
    progress.show(100)
    assert out.getvalue() == ""
    progress.end(200)
    assert out.getvalue().count("\n") == 1
    assert "100%  200 of 200" in out.getvalue()


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "demo.flash_sale"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        while not list(tmp_path.rglob("*.sqlite")) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopped" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("*.sqlite"))
