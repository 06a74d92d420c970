"""holdtight.contrib.celery: two workers, a broker that delivers slow tasks again, and tasks under locks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery  # type: ignore[import-untyped]

from holdtight import Locks, LockTimeout, current_lease
from holdtight.contrib.celery import LockedTask
from holdtight.testing import lose
from tests.contrib.conftest import lines
from tests.docs.recipes.page import PATIENCE, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

PROGRAM = """
import logging, os, time
from celery import Celery
from holdtight.contrib.celery import LockedTask

app = Celery("shop", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"])
# Redis delivers a message again that was not acknowledged in two seconds.
app.conf.broker_transport_options = {
    "visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1
}
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1

def note(*words):
    with open("done", "a") as file:
        print(*words, os.getpid(), file=file)

@app.task(base=LockedTask, once=True)
def slow_once():
    note("once")
    time.sleep(6)
    return "shipped"

class Told(logging.Handler):
    def emit(self, record):
        if "delivered again" in record.getMessage():
            note("told", record.getMessage().split()[-1])

logging.getLogger("holdtight").setLevel(logging.INFO)
logging.getLogger("holdtight").addHandler(Told())

class Noting(LockedTask):
    abstract = True

    def on_retry(self, *about):
        note("retry", self.request.retries)

@app.task(base=Noting, lock="order:{order_id}", once=True, busy_countdown=0.2)
def pay(order_id):
    note("paid", order_id)

@app.task
def slow():
    note("plain")
    time.sleep(6)

@app.task(base=LockedTask, lock="order:{order_id}", busy_countdown=0.2)
def step(order_id, number):
    note("begin", order_id)
    time.sleep(0.3)
    note("end", order_id)

@app.task(base=LockedTask, lock="order:{order_id}", on_busy="skip")
def skipped(order_id):
    note("never")

@app.task(base=LockedTask, lock="order:{order_id}", on_busy="raise")
def raised(order_id):
    note("never")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def urls(private_server: RunningServer) -> dict[str, str]:
    return {"HOLDTIGHT_URL": private_server.url, "BROKER_URL": private_server.url.replace("/0", "/1")}


@pytest.fixture
def send(folder: Path, urls: dict[str, str], run: Run) -> Callable[[str], list[str]]:
    """Runs code in a program that has the tasks, while two workers run."""
    words = [
        "-m",
        "celery",
        "-A",
        "tasks",
        "worker",
        "-P",
        "prefork",
        "-c",
        "1",
        "--without-mingle",
        "--without-gossip",
    ]
    for name in ("one", "two"):
        run(folder, [*words, "-n", name], **urls)

    # Before both workers are up, one of them would do everything.
    child = run(folder, ["-c", "from tasks import *\nwhile len(app.control.ping(timeout=0.5)) < 2: pass"], **urls)
    assert child.wait(PATIENCE) == 0, child.errors

    def send(code: str) -> list[str]:
        child = run(folder, ["-c", f"from tasks import *; {code}"], **urls)
        said = child.lines(PATIENCE)
        assert child.wait(PATIENCE) == 0, child.errors
        return said

    return send


def test_a_message_that_is_delivered_again_runs_once(folder: Path, send: Callable[[str], list[str]]) -> None:
    """Without `once` it runs twice."""
    assert send("slow.delay(); print(slow_once.delay().get(timeout=90))") == ["shipped"]
    wait_for(lambda: [line.split()[0] for line in lines(folder / "done")].count("plain") > 1, within=60)
    assert [line.split()[0] for line in lines(folder / "done")].count("once") == 1


def test_a_copy_of_a_message_that_was_retried_is_dropped(
    folder: Path, send: Callable[[str], list[str]], private_server: RunningServer
) -> None:
    def noted() -> list[str]:
        return [" ".join(line.split()[:2]) for line in lines(folder / "done")]

    def ran() -> list[str]:
        return [note for note in noted() if not note.startswith("told")]

    def both_ended() -> bool:
        return "paid 7" in ran() and ("told done" in noted() or len(set(ran())) < len(ran()))

    with Locks(private_server.url) as locks, locks.lock("order:7"):
        send("[pay.apply_async((7,), task_id='one') for copy in range(2)]")
        wait_for(lambda: "retry 1" in noted(), within=PATIENCE)
    wait_for(both_ended, within=60)
    assert ran() == [*(f"retry {number}" for number in range(len(ran()) - 1)), "paid 7"]


def test_a_retry_is_one_also_if_the_lease_was_lost_before() -> None:
    app = Celery("x", set_as_current=False)
    ran = []
    with Locks("memory://celery-lost") as locks:

        @app.task(base=LockedTask, once=True, locks=locks, bind=True)  # type: ignore[untyped-decorator]
        def again(self: LockedTask) -> str:
            ran.append(self.request.retries)
            if not self.request.retries:
                lose(current_lease())
                raise self.retry()
            return "done"

        assert again.apply(task_id="one").get() == "done"
    assert ran == [0, 1]


@pytest.mark.long
def test_tasks_of_one_order_run_one_after_the_other(
    folder: Path, send: Callable[[str], list[str]], private_server: RunningServer
) -> None:
    send("[step.delay(order_id=7, number=n) for n in range(4)]")
    wait_for(lambda: len(lines(folder / "done")) == 8, within=PATIENCE)
    assert [line.split()[0] for line in lines(folder / "done")] == ["begin", "end"] * 4
    with Locks(private_server.url) as locks, locks.lock("order:7"):
        assert send("print(skipped.delay(7).get(timeout=60))") == ["None"]
        said = send("print(raised.delay(7).get(timeout=60, propagate=False).code)")
        assert said == ["LOCK_TIMEOUT"]
    assert "never" not in (folder / "done").read_text()


def test_wrong_options_are_told_when_the_task_is_made() -> None:
    app = Celery("x", set_as_current=False)
    with pytest.raises(ValueError, match="no such parameter"):

        @app.task(base=LockedTask, lock="order:{id}", lazy=False)  # type: ignore[untyped-decorator]
        def one(order_id: int) -> None: ...

    with pytest.raises(ValueError, match="on_busy"):

        @app.task(base=LockedTask, lock="order:{order_id}", on_busy="wait", lazy=False)  # type: ignore[untyped-decorator]
        def two(order_id: int) -> None: ...


def test_a_task_that_is_called_as_a_function_takes_its_lock_too() -> None:
    app = Celery("x", set_as_current=False)
    with Locks("memory://celery") as locks:

        @app.task(base=LockedTask, lock="order:{order_id}", locks=locks, bind=True)  # type: ignore[untyped-decorator]
        def ship(self: LockedTask, order_id: int) -> bool:
            return locks.lock(f"order:{order_id}").locked()

        assert ship(7)
        with locks.lock("order:7"), pytest.raises(LockTimeout):
            ship(7)
