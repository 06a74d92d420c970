"""holdtight.contrib.apscheduler: two schedulers in processes of their own, on one job store in Redis."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from holdtight import Locks, NotSupported
from holdtight.contrib.apscheduler import OnceExecutor
from tests.contrib.conftest import lines
from tests.docs.recipes.page import PATIENCE, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

PROGRAM = """
import os, sys
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from holdtight import Locks
from holdtight.contrib.apscheduler import OnceExecutor

def fire():
    return "ran"

def note(event):
    if event.retval == "ran":
        with open("fired", "a") as file:
            file.write(f"{os.getpid()} {event.scheduled_run_time.timestamp():.3f}\\n")

if __name__ == "__main__":
    port, guarded, start = int(sys.argv[1]), sys.argv[2] == "once", sys.argv[3]
    import jobs  # so that the store has a name for the job that both processes know
    scheduler = BackgroundScheduler(
        jobstores={"default": RedisJobStore(db=1, port=port)},
        executors={"default": OnceExecutor(Locks(f"redis://127.0.0.1:{port}/0"))} if guarded else {},
    )
    scheduler.add_listener(note, EVENT_JOB_EXECUTED)
    scheduler.start(paused=True)
    scheduler.add_job(jobs.fire, "interval", seconds=1, id="fire", start_date=start,
                      replace_existing=True, misfire_grace_time=60, coalesce=False)
    print("ready", flush=True)
    input()
    scheduler.resume()
    input()
    scheduler.shutdown()
"""


@pytest.mark.parametrize("how", ["once", pytest.param("without", marks=pytest.mark.long)])
def test_two_schedulers_run_each_firing_once(how: str, tmp_path: Path, private_server: RunningServer, run: Run) -> None:
    """APScheduler's own executors run a firing in every process that finds it due: the store has no lock."""
    (tmp_path / "jobs.py").write_text(PROGRAM)
    schedulers = [run(tmp_path, ["jobs.py", str(private_server.port), how, "2020-01-01 00:00:00"]) for _ in range(2)]
    for scheduler in schedulers:
        scheduler.expect("ready", PATIENCE)
    for scheduler in schedulers:
        scheduler.send("go")

    def fired() -> Counter[str]:
        return Counter(line.split()[1] for line in lines(tmp_path / "fired"))

    wait_for(lambda: len(fired()) >= 6 or (how == "without" and max(fired().values(), default=0) > 1), within=60)
    for scheduler in schedulers:
        scheduler.send("end")
        assert scheduler.wait(PATIENCE) == 0, scheduler.errors
    if how == "once":
        assert set(fired().values()) == {1}, fired()
    else:
        assert max(fired().values()) > 1, fired()


def test_a_quorum_and_wrong_options_are_refused_at_once() -> None:
    with Locks(["redis://a", "redis://b", "redis://c"]) as locks, pytest.raises(NotSupported):
        OnceExecutor(locks)
    with Locks("memory://") as locks, pytest.raises(ValueError, match="at_least"):
        OnceExecutor(locks, keep="5 parsecs")
