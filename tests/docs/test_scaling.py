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
