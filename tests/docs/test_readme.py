"""What the README shows runs as it stands, but for the address of the server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import holdtight
from tests.support.servers import RunningServer

README = Path(__file__).parents[2] / "README.md"


def test_every_block_of_python_in_the_readme_runs(private_server: RunningServer) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    calls: list[str] = []

    async def run_reports() -> None:
        calls.append("reports")

    world: dict[str, Any] = {
        "ship_order": lambda number, fence: calls.append(f"ship {number} {fence > 0}"),
        "charge_customer": lambda number: calls.append(f"charge {number}"),
        "build_report": lambda: calls.append("report"),
        "run_reports": run_reports,
    }
    for block in blocks:
        exec(block.replace("redis://localhost:6379/0", private_server.url), world)
    asyncio.run(world["nightly"]())
    world["refresh"]()
    world["unsubscribe"]()
    assert calls == ["ship 42 True", "charge 42", "report", "reports"]
    locks: holdtight.Locks = world["locks"]
    assert not locks.lock("order:42").locked()
    locks.close()
