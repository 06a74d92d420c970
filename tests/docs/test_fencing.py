"""The code of docs/fencing.md runs, its scripts show what they say, and its table has the figures of every level."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from holdtight import Locks
from tests.support.processes import Child
from tests.support.servers import RunningServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fencing.md").read_text()


def test_the_code_of_the_page_runs(private_server: RunningServer) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    with (
        closing(sqlite3.connect(":memory:")) as conn,
        redis.Redis(port=private_server.port) as client,
        Locks(private_server.url) as locks,
    ):
        conn.execute("CREATE TABLE stock AS SELECT 1 AS sku, 100 AS units")
        conn.commit()
        client.set("stock:1", 100)
        names = {"conn": conn, "client": client, "locks": locks}
        for block in blocks:
            exec(compile(block, "docs/fencing.md", "exec"), names)
        assert conn.execute("SELECT units FROM stock").fetchone() == (98,)
        assert client.get("stock:1") == b"99"
        assert client.lrange("sold", 0, -1) == [b"sku:1"]


@pytest.mark.parametrize("script", ["transactional_update", "overselling"])
def test_the_script_shows_the_fault_without_a_guard_and_none_with_it(script: str) -> None:
    path = ROOT / "examples" / "jobs" / f"{script}.py"
    assert f"../examples/jobs/{script}.py" in PAGE
    with Child([sys.executable, str(path)], {"PYTHONPATH": str(ROOT / "src")}) as child:
        said = child.lines(90)
        assert (child.wait(), child.errors) == (0, "")
    assert said[-1] == "The fault with a lock alone: yes. With a guard: no."


def test_the_figures_show_no_lost_update_behind_a_guard() -> None:
    rows = re.findall(r"^\| (SQLite|PostgreSQL|MariaDB) [\w ]+ \|(.*)\|$", PAGE, re.MULTILINE)
    figures = [cells.split("|") for _, cells in rows if "lost" in cells]
    assert len(figures) == 8
    for unfenced, checked, guarded in figures:
        assert int(unfenced.split()[0]) > 0
        assert int(checked.split()[0]) > 0
        assert guarded.split()[0] == "0"
