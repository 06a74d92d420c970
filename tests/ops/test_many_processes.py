"""Several processes with one folder of metrics, as under gunicorn; and a holder that is killed."""

from __future__ import annotations

import os
import re
import signal
import struct
import sys
import urllib.request
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from holdtight import Locks, metrics
from tests.ops.counting import Counts
from tests.support.processes import Child, StartChild, wait_for
from tests.support.servers import RunningServer, free_port

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


SHORT = """
from holdtight import Locks, metrics
from holdtight.ops import recorder

recorder.INTERVAL = 3600  # the thread counts nothing before the end
locks = Locks("memory://")
metrics.install(locks)
with locks.lock("x"):
    pass
"""


def test_what_waits_at_the_end_of_a_program_is_counted(start_child: StartChild, tmp_path: Path) -> None:
    assert start_child(SHORT, env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}).wait() == 0
    assert shown(tmp_path)["redis_lock_acquire_success_total"] == 1
    assert shown(tmp_path)["redis_lock_hold_duration_seconds_count"] == 1


APPLICATION = """
import os
from holdtight import Locks, metrics

locks = Locks(os.environ["HOLDTIGHT_URL"])
metrics.install(locks)
kept = []

def application(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        kept.append(locks.lock("held", ttl=3).acquire())
    else:
        with locks.lock("used", ttl=20):
            pass
    metrics.flush()
    start_response("200 OK", [])
    return [b"%d" % os.getpid()]
"""
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def configuration() -> str:
    """The one that the page shows."""
    (found,) = re.findall(
        r"^```python\n(# gunicorn.conf.py\n.*?)^```$", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return str(found)


def test_under_gunicorn_a_worker_that_is_killed_holds_nothing_and_what_it_counted_stays(
    private_server: RunningServer, tmp_path: Path
) -> None:
    folder, port = tmp_path / "metrics", free_port()
    folder.mkdir()
    (tmp_path / "shop.py").write_text(APPLICATION)
    (tmp_path / "gunicorn.conf.py").write_text(configuration())
    words = ["shop:application", "--preload", "--workers", "2", "--bind", f"127.0.0.1:{port}", "--no-control-socket"]
    env = {
        "PYTHONPATH": ":".join([*sys.path, str(tmp_path)]),
        "PROMETHEUS_MULTIPROC_DIR": str(folder),
        "HOLDTIGHT_URL": private_server.url,
    }
    answers = 0

    def ask(path: str = "/") -> int:
        """The pid of the worker that answered; 0 if none did."""
        nonlocal answers
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                pid = int(answer.read())
        except OSError:
            return 0
        answers += 1
        return pid

    def success() -> bool:
        return shown(folder).get("redis_lock_acquire_success_total") == answers

    with Child(["sh", "-c", 'cd "$0" && exec "$@"', str(tmp_path), sys.executable, "-m", "gunicorn", *words], env):
        seen: set[int] = set()

        def both() -> bool:
            seen.add(ask())
            return len(seen - {0}) == 2

        wait_for(both, within=60, what="two workers")
        holder = ask("/hold")
        wait_for(lambda: shown(folder).get("redis_lock_held") == 1)
        wait_for(success)
        os.kill(holder, signal.SIGKILL)
        wait_for(lambda: shown(folder).get("redis_lock_held") == 0, what="the dead to hold nothing")
        assert success(), "what was counted stays"
        wait_for(lambda: ask() not in (0, *seen), within=60, what="a new worker")
        wait_for(success)
