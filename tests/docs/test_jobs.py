"""The code of docs/jobs.md runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdtight import Locks

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


def test_the_code_of_the_page_runs() -> None:
    with Locks("memory://jobs-page") as locks:
        world: dict[str, Any] = {"locks": locks}
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
            exec(compile(block, "docs/jobs.md", "exec"), world)
