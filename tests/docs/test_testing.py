"""What docs/testing.md shows runs as it stands: with pytest, or by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
WITH_PYTEST = [block for block in BLOCKS if "\ndef test_" in block]


def title(block: str) -> str:
    found = re.search(r"def (test_\w+)", block)
    assert found
    return found[1]


@pytest.mark.parametrize("block", WITH_PYTEST, ids=title)
def test_a_block_of_tests_passes(pytester: pytest.Pytester, block: str) -> None:
    pytester.makepyfile(block)
    plugins = ("-p", "holdtight.testing", "-p", "no:valkey", "-p", "no:asyncio", "-p", "no:cacheprovider")
    # In this process it may have been imported already.
    warnings = ("-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    result = pytester.runpytest_inprocess(*plugins, *warnings)
    outcomes = result.parseoutcomes()
    assert outcomes.keys() == {"passed"}
    assert outcomes["passed"] >= block.count("\ndef test_")


def test_the_other_blocks_run() -> None:
    others = [block for block in BLOCKS if block not in WITH_PYTEST]
    assert len(WITH_PYTEST) >= 6
    assert len(others) == 1
    for block in others:
        exec(block, {})
