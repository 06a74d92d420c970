"""The code of docs/choosing.md does what the page says."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from holdtight import Locks
from tests.support.servers import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "choosing.md"


def test_the_code_does_what_the_page_says(private_server: RunningServer) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    with closing(sqlite3.connect(":memory:")) as shop, Locks(private_server.url) as locks:
        shop.execute("CREATE TABLE stock AS SELECT 'lamp' AS article, 3 AS units")
        shop.execute("CREATE TABLE payment (order_number INTEGER UNIQUE, amount INTEGER)")
        world: dict[str, Any] = {"shop": shop, "locks": locks, "sqlite3": sqlite3, "render": lambda: "report"}
        for block in blocks:
            exec(block, world)
        assert [world["sell"]("lamp") for _ in range(5)] == [True, True, True, False, False]
        assert [world["pay"](42, 10), world["pay"](42, 10), world["pay"](43, 10)] == [True, False, True]
        assert world["build_report"]() == "report"
        with locks.lock("report"):
            assert world["build_report"]() == "another process builds it"
        assert not locks.lock("report").locked()
