"""What docs/topologies.md says about targets is so. Its words on failovers are those of tests/topology/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtight import AsyncLocks, Locks, NotSupported
from holdtight.config.targets import Sentinel, Single

PAGE = Path(__file__).parents[2] / "docs" / "topologies.md"


@pytest.mark.parametrize("opened", [Locks, AsyncLocks])
def test_the_targets_of_the_page_are_taken(opened: type) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    single, sentinel = [eval(line, {"Locks": opened}).settings.target for line in block.splitlines()]
    assert isinstance(single, Single)
    assert isinstance(sentinel, Sentinel)
    assert [each.endpoint for each in sentinel.sentinels] == ["s1:26379", "s2:26379", "s3:26379"]
    for scheme in re.findall(r"`(\w+\+sentinel)://`", PAGE.read_text()):
        assert isinstance(opened(f"{scheme}://a,b/mymaster").settings.target, Sentinel)


def test_what_the_page_calls_refused_is_refused() -> None:
    assert "Redis Cluster is not built yet and refused" in PAGE.read_text()
    with pytest.raises(NotSupported, match="Cluster"):
        Locks("redis+cluster://a")
    with pytest.raises(NotSupported, match="cannot be a node of a quorum"):
        Locks(["redis://a", "redis+sentinel://b/mymaster", "redis://c"])
