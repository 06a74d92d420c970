"""The code of docs/cohort.md does what the page says."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from holdtight import Locks

PAGE = Path(__file__).parents[2] / "docs" / "cohort.md"


def test_the_code_counts_with_rising_fences() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    fences: list[int] = []
    with Locks("memory://cohort-page") as locks:
        world: dict[str, Any] = {"locks": locks}
        exec(block, world)
        assert world["hot"].options.cohort

        def work() -> None:
            fences.extend(world["count"]() for _ in range(50))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(fences)) == 200


def test_the_page_says_the_numbers_of_the_code() -> None:
    from holdtight.clients.cohort_line import WINDOW
    from holdtight.stores.times import FENCES

    assert f"for up to {WINDOW * 1000:g} ms or {FENCES - 1} times" in PAGE.read_text()
