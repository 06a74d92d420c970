"""The code of docs/operations.md runs, and its tables are those of the instruments and of the alerts."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest

from holdtight import Locks, NotOwner
from holdtight.base.values import LossReason
from holdtight.cli.main import run_cli
from holdtight.events import Events, Lost
from holdtight.ops.deploy import FILES
from holdtight.ops.instruments import INSTRUMENTS
from tests.support.servers import RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


@pytest.fixture
def pasted() -> Iterator[dict[str, Any]]:
    """The names that the page's code makes; its client and its handler end with the test."""
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(code) == 6
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


def test_the_table_of_alerts_is_that_of_the_rules_and_leads_to_sections_that_are_there() -> None:
    section = PAGE.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, flags=re.MULTILINE)
    rules = re.findall(r"- alert: (\w+)\n.*?severity: (\w+)\n", FILES["rules"].read_text("utf-8"), flags=re.DOTALL)
    assert len(rules) == 10
    assert rows == rules
    anchors = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors


def test_the_commands_of_the_runbook_run(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runbook = PAGE.partition("\n## Runbook\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^ +holdtight (.+)$", runbook, flags=re.MULTILINE)
    assert len(commands) == 8
    monkeypatch.setenv("HOLDTIGHT_URL", private_server.url)
    with Locks(private_server.url) as locks:
        lease = locks.lock("order:42", ttl=20).acquire()
        for command in commands:
            code = run_cli(shlex.split(command))
            shown = capsys.readouterr()
            assert code == 0 or (command, code) == ("doctor", 1), f"{command}: {code}, {shown.err}"
            assert "order:42" in shown.out or command == "doctor", f"{command}: {shown.out}"
        with pytest.raises(NotOwner):
            lease.release()


def _besides(labels: tuple[str, ...]) -> str:
    if labels[:2] == ("lock", "kind"):
        return " ".join(labels[2:])
    return f"only {labels[0]}" if labels else "none"
