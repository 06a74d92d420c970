"""What docs/migrating.md shows runs as it stands, but for the address of the server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from tests.support.servers import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"


def test_every_block_of_python_runs(private_server: RunningServer) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 6
    calls: list[str] = []

    def held_by(key: str) -> None:
        calls.append(f"{key} held" if private_server.command("EXISTS", key) else f"{key} free")

    async def run_reports() -> None:
        held_by("nightly")

    world: dict[str, Any] = {
        "ship_order": lambda number: held_by(f"order:{number}"),
        "build_report": lambda: held_by("report"),
        "run_reports": run_reports,
    }
    for block in blocks:
        exec(block.replace("redis://localhost:6379/0", private_server.url), world)
    asyncio.run(world["nightly"]())
    assert calls == [
        "order:42 held",
        "order:42 held",
        "report held",
        "order:42 held",
        "order:42 free",  # the last step has left the plain key behind
        "nightly held",
    ]
    world["locks"].close()
    world["client"].close()
    left = private_server.keys("*")
    assert all(key.startswith("ht:") for key in left), left
