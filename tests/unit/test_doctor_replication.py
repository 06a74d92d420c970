"""What `doctor` says about replication and Sentinel, given what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import Severity
from holdtight.base.operations import ReplicaSeen, SentinelSeen
from holdtight.core.doctor_replication import judge

MASTER = ("10.0.0.1", 6379)
SENTINELS = [SentinelSeen(f"s{number}:26379", "", MASTER, 5.0, 3, ()) for number in range(3)]
HEALTHY = {"master_link_status": "up", "slave_priority": "100", "slave_read_only": "1"}
REPLICAS = [ReplicaSeen(f"redis://10.0.0.{number}:6379/0", "", HEALTHY, 0.0) for number in (2, 3)]
INFO = {"role": "master", "connected_slaves": "1", "slave0": "ip=10.0.0.2,port=6379,state=online,offset=1,lag=1"}


def found(**changed: Any) -> list[tuple[str, Severity]]:
    seen: dict[str, Any] = {
        "master": "redis://10.0.0.1:6379/0",
        "info": INFO,
        "offset": 0.0,
        "min_replicas": "1",
        "sentinels": SENTINELS,
        "replicas": REPLICAS,
        "ttl": 30.0,
    }
    return [(each.id, each.severity) for each in judge(**(seen | changed))]


def test_nothing_is_found_in_a_good_set_up() -> None:
    assert found() == []


def test_nothing_is_said_of_a_master_that_was_not_read() -> None:
    """Its clock and its replicas are not known. That it cannot be reached is a finding of its own."""
    ahead = [each._replace(offset=5.0) for each in REPLICAS]
    assert found(info={}, offset=None, replicas=ahead) == []
    assert found(info={}, offset=None, replicas=[]) == []


WARNING, ERROR = Severity.WARNING, Severity.ERROR


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"min_replicas": "0"}, ("MIN_REPLICAS", WARNING)),
        ({"ttl": 10.4}, ("SLOW_FAILOVER", WARNING)),
        ({"offset": 0.2}, ("CLOCK_SKEW", WARNING)),
        ({"offset": -60.0}, ("CLOCK_SKEW", ERROR)),
        ({"offset": 0.2, "replicas": [REPLICAS[0], REPLICAS[1]._replace(offset=60.0)]}, ("CLOCK_SKEW", ERROR)),
        ({"replicas": [], "info": {"connected_slaves": "0"}}, ("NO_REPLICA", WARNING)),
        ({"info": INFO | {"slave0": "ip=10.0.0.2,port=6379,lag=2"}}, ("REPLICA_LAG", WARNING)),
        ({"replicas": [REPLICAS[0]._replace(info=HEALTHY | {"master_link_status": "down"})]}, ("REPLICA_LAG", WARNING)),
        ({"replicas": [REPLICAS[0]._replace(cause="refused")]}, ("REPLICA_LAG", WARNING)),
        ({"replicas": [REPLICAS[0]._replace(info=HEALTHY | {"slave_read_only": "0"})]}, ("WRITABLE_REPLICA", ERROR)),
        ({"replicas": [REPLICAS[0]._replace(info=HEALTHY | {"slave_priority": "0"})]}, ("REPLICA_PRIORITY", WARNING)),
        ({"sentinels": [SENTINELS[0]._replace(sentinels=2)]}, ("FEW_SENTINELS", WARNING)),
        ({"sentinels": [*SENTINELS, SENTINELS[0]._replace(cause="refused")]}, ("FEW_SENTINELS", WARNING)),
        ({"sentinels": [*SENTINELS, SENTINELS[0]._replace(not_told="NOPERM")]}, ("NOT_KNOWN", Severity.NOTE)),
        ({"sentinels": [*SENTINELS, SENTINELS[0]._replace(unheard="NOPERM")]}, ("RIGHT_MISSING", WARNING)),
        ({"sentinels": [*SENTINELS, SENTINELS[0]._replace(master=("10.0.0.9", 1))]}, ("FEW_SENTINELS", WARNING)),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_found(changed: dict[str, Any], expected: tuple[str, Severity]) -> None:
    assert found(**changed) == [expected]


def test_one_sentinel_that_is_given_and_knows_of_two_more_is_enough() -> None:
    assert found(sentinels=SENTINELS[:1]) == []
