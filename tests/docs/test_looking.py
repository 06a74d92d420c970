"""What docs/looking.md shows runs, and its table has every finding."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdtight import Locks, LossReason, NotOwner
from holdtight.core.findings import TABLE
from tests.support.servers import RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "looking.md").read_text()


def test_the_examples_run_in_the_order_of_the_page(private_server: RunningServer, capsys: Any) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(examples) == 4
    with Locks(private_server.url, label="checkout") as locks:
        lease = locks.lock("nightly").acquire()
        scope: dict[str, Any] = {"locks": locks}
        with locks.lock("order:42"):
            for example in examples:
                exec(example, scope)
        with pytest.raises(NotOwner):
            lease.release()
        assert lease.reason is LossReason.FORCED
    said = capsys.readouterr().out
    assert "order:42" in said
    assert "hangs since 4:12, ticket 811" in said
    assert "NO_PERSISTENCE" in said


def test_the_table_has_every_finding_with_its_severity() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+)", PAGE, flags=re.MULTILINE)
    assert rows == [(id_, severity.value) for id_, (severity, _, _) in TABLE.items()]
