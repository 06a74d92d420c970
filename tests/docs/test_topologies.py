"""What docs/topologies.md says about targets is so. Its words on failovers are those of tests/topology/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtight import AsyncLocks, Locks, NotSupported, history
from holdtight.config.targets import Cluster, Sentinel, Single

PAGE = Path(__file__).parents[2] / "docs" / "topologies.md"


@pytest.mark.parametrize("opened", [Locks, AsyncLocks])
def test_the_targets_of_the_page_are_taken(opened: type) -> None:
    block, acked = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert eval(acked, {"Locks": opened}).settings.acks == 1
    single, sentinel, cluster = [eval(line, {"Locks": opened}).settings.target for line in block.splitlines()]
    assert isinstance(single, Single)
    assert isinstance(sentinel, Sentinel)
    assert [each.endpoint for each in sentinel.sentinels] == ["s1:26379", "s2:26379", "s3:26379"]
    assert isinstance(cluster, Cluster)
    assert [each.endpoint for each in cluster.seeds] == ["n1:6379", "n2:6379", "n3:6379"]
    for scheme in re.findall(r"`(\w+\+cluster)://`", PAGE.read_text()):
        assert isinstance(opened(f"{scheme}://a,b").settings.target, Cluster)
    for scheme in re.findall(r"`(\w+\+sentinel)://`", PAGE.read_text()):
        assert isinstance(opened(f"{scheme}://a,b/mymaster").settings.target, Sentinel)


def test_what_the_page_calls_refused_is_refused() -> None:
    for target in ("redis+sentinel://b/mymaster", "redis+cluster://b"):
        with pytest.raises(NotSupported, match="cannot be a node of a quorum"):
            Locks(["redis://a", target, "redis://c"])
    with Locks("redis+cluster://a") as locks, pytest.raises(NotSupported, match="cluster"):
        history.install(locks)
