"""Several processes with one folder of metrics, as under gunicorn; and a holder that is killed."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from holdtight import Locks, metrics
from tests.ops.counting import Counts
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer

WORKER = """
import os, sys, time
from holdtight import Locks, metrics

locks = Locks(args[0])
metrics.install(locks)
with locks.lock("before the fork"):
    pass
metrics.flush()
child = os.fork()
if child == 0:
    with locks.lock("x", ttl=3):
        metrics.flush()
        print("holds", os.getpid(), flush=True)
        sys.stdin.read()
    sys.exit()
print("parent", flush=True)
os.waitpid(child, 0)
"""


def shown(folder: Path) -> dict[str, float]:
    """What a scrape of all processes shows, by name, summed over labels."""
    registry = CollectorRegistry()
    found: dict[str, float] = {}
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    try:
        metrics_shown = list(registry.collect())
    except struct.error:
        return found  # a file that a process makes just now is still empty
    for metric in metrics_shown:
        for sample in metric.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_the_counts_of_all_processes_add_up_and_the_dead_hold_nothing(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path
) -> None:
    child = start_child(WORKER, private_server.url, env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
    said = dict(line.partition(" ")[::2] for line in (child.wait_line(), child.wait_line()))
    holder = int(said["holds"])
    wait_for(lambda: shown(tmp_path).get("redis_lock_held") == 1)
    wait_for(lambda: shown(tmp_path).get("redis_lock_acquire_success_total") == 2)
    wait_for(lambda: shown(tmp_path).get("redis_node_health") == 1, what="both processes to show the server as up")
    os.kill(holder, signal.SIGKILL)
    child.wait()
    mark_process_dead(holder, str(tmp_path))  # type: ignore[no-untyped-call]
    after = shown(tmp_path)
    assert after["redis_lock_held"] == 0
    assert after["redis_lock_acquire_success_total"] == 2, "what was counted stays"
    assert after["redis_lock_hold_duration_seconds_count"] == 1
    with Locks(private_server.url) as others:
        metrics.install(others, registry=(registry := CollectorRegistry()))
        with others.lock("x", wait=20):
            assert Counts(registry)("expired_total") == 1
            assert Counts(registry)("acquire_wait_seconds_sum", outcome="acquired") > 1
