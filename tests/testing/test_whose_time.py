"""Time belongs to a client's place: code that reads another clock does not follow the test clock."""

from __future__ import annotations

import re
from pathlib import Path

import holdtight

SOURCE = Path(holdtight.__file__).parent
LOOKS = re.compile(r"\bboottime\b|\bmonotonic\(|\btime\.time\(|\btime\.sleep\(|\bcall_later\(|\bkeeper\(\)")
REASONS = {
    "base/clock.py": "it is where the clock is",
    "keeper/keeper.py": "it has the runtime of all places but those of tests",
    "base/runtime.py": "it has the timers of loops where time passes by itself",
    "stores/redis/link.py": "a socket's patience is real",
    "stores/redis/connect.py": "as above",
    "stores/client.py": "the default",
    "stores/redis/client_records.py": "when this process began",
    "sync/pool.py": "so is that of a thread that connects, or pauses because it could not",
    "stores/memory/place.py": "the clock of the stores that are not a test's",
    "aio/quorum_driver.py": "the nodes of a quorum are real servers, and asked by a socket each",
    "aio/broadcast.py": "as above",
    "compat/access.py": "the drop-in is for real servers only, as the lock it stands in for",
    "compat/aio.py": "as above",
    "compat/base.py": "as above",
    "compat/local.py": "as above",
    "compat/plans.py": "as above",
    "compat/sync.py": "as above",
    "fencing/plans.py": "the age of a fence in a database is a time of day",
    "fencing/redis.py": "as above",
    "stores/redis/scout.py": "Sentinels are real servers",
    "stores/redis/sentinel.py": "as above",
    "stores/redis/cluster.py": "so are the servers of a cluster",
    "stores/redis/cluster_link.py": "as above",
    "stores/redis/cluster_node.py": "as above",
    "stores/redis/cluster_scout.py": "as above",
    "stores/redis/rounds.py": "as above",
    "aio/quiet.py": "it notices that this process was paused, which no test clock does",
    "ops/recorder.py": "its thread counts for all clients, and sleeps in between",
    "ops/spans.py": "a trace has the time of day",
    "testing/waiters.py": "how long it waits for a thread",
}


def test_nobody_else_looks_at_a_clock() -> None:
    looking = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not {"cli", "embedded", "server"}.intersection(path.parts) and LOOKS.search(path.read_text())
    }
    others = looking - REASONS.keys()
    assert not others, (
        f"{sorted(others)}: ask place.clock, and sleep and call later by place.runtime; or say here why not"
    )
    assert looking == REASONS.keys()
