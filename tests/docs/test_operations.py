"""The code of docs/operations.md runs, and its table is the one of the instruments."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest

from holdtight.base.values import LossReason
from holdtight.events import Events, Lost
from holdtight.ops.instruments import INSTRUMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


@pytest.fixture
def pasted() -> Iterator[dict[str, Any]]:
    """The names that the page's code makes; its client and its handler end with the test."""
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(code) == 5
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    yield names
    logging.getLogger("holdtight").removeHandler(names["handler"])
    names["locks"].close()


def test_the_code_counts_watches_and_logs_json(pasted: dict[str, Any]) -> None:
    shown = generate_latest(REGISTRY).decode()
    assert 'redis_lock_acquire_success_total{kind="exclusive",lock="order:*"} 1.0' in shown
    assert 'redis_lock_acquire_success_total{kind="exclusive",lock="nightly"} 1.0' in shown
    assert 'redis_lock_holders{lock="order:42"} 0.0' in shown
    lines: list[str] = []
    pasted["handler"].emit = lambda record: lines.append(pasted["handler"].format(record))
    Events().emit(Lost("nightly", "KIwfa0AQEEFctCj0SFu94hQ4uZKl6krI", 7, LossReason.TAKEN, 12.3))
    (line,) = map(json.loads, lines)
    assert (line["lock_event"], line["lock_name"], line["lock_owner"]) == ("Lost", "nightly", "KIwfa0AQEEF")


def test_the_example_of_a_line_has_the_fields_of_one() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert json.loads(text)["lock_reason"] == "taken"


def test_the_table_has_every_instrument_with_its_type_and_labels() -> None:
    rows = re.findall(r"^\| `(redis_\w+)` \| (\w+) \|([^|]*)\|", PAGE, flags=re.MULTILINE)
    found = {name: (kind, labels.strip().replace("`", "")) for name, kind, labels in rows}
    expected = {each.name: (each.type, _besides(each.labels)) for each in INSTRUMENTS}
    assert found == expected


def _besides(labels: tuple[str, ...]) -> str:
    if labels[:2] == ("lock", "kind"):
        return " ".join(labels[2:])
    return f"only {labels[0]}" if labels else "none"
