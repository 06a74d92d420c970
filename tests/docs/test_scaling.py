"""The code of docs/scaling.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def test_names_are_spread_over_the_shards_and_always_found_on_the_same() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    world: dict[str, Any] = {}
    exec(block, world)
    shard, shards = world["shard"], world["SHARDS"]
    try:
        found = [shards.index(shard(f"order:{number}")) for number in range(300)]
        assert found == [shards.index(shard(f"order:{number}")) for number in range(300)]
        assert all(50 < found.count(each) < 150 for each in range(3))
    finally:
        for locks in shards:
            locks.close()


def test_the_rows_to_look_at_exist() -> None:
    """The page quotes no figures: it says where the benchmarks have them."""
    sources = "".join(path.read_text("utf-8") for path in (PAGE.parents[1] / "bench").rglob("*.py"))
    named = re.findall(r'"([^"\n]+)"', re.sub(r"(?s)```.*?```|`[^`]*`", "", PAGE.read_text("utf-8")))
    assert len(named) > 6
    for each in named:
        if not each.startswith(("1 thread", "1024 tasks")):  # made from a number and a noun
            assert each in sources, each
