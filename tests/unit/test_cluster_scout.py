"""How often the scout of a cluster asks while it is in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import Locks
from holdtight.stores.redis import cluster_scout


@pytest.mark.parametrize(
    ("silent", "since", "pause"),
    [(True, 1, 0.1), (False, 1, 0.1), (True, 24, 0.2), (True, 100, 0.2), (False, 24, 1.0), (True, 3600, 1.0)],
)
def test_a_server_that_is_silent_is_watched_until_another_must_have_taken_over(
    silent: bool, since: float, pause: float
) -> None:
    """With the usual `cluster-node-timeout` of 15 s that takes 24 s."""
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place: Any = locks.place
        scout, now = place.scout, 5000.0
        scout._in_doubt, scout._silent, scout._doubted_at, scout._began = True, silent, now - since, now
        assert scout._due(now) - now == pytest.approx(pause)
        scout._in_doubt = False
        assert scout._due(now) - now == pytest.approx(cluster_scout.ASK_NODES_SECONDS)
