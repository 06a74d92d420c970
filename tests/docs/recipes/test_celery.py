"""docs/recipes/celery.md, with a Celery worker whose children are forked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from holdtight import Locks
from tests.docs.recipes.page import PATIENCE, Run, commands, unpack
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

Send: TypeAlias = Callable[[str], None]

# Celery begins to count for the hard limit when the soft one is over, if there is one.
WITHOUT_A_SOFT_LIMIT = """
import os, signal, time
from tasks import app, locks

@app.task(time_limit=1)
def hang():
    with locks.lock("invoice:acme", ttl=10):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # so that only the SIGKILL after it counts
        with open("acme.invoice", "a") as file:
            file.write(f"{os.getpid()} 0\\n")
        time.sleep(60)
"""


@pytest.fixture
def send(tmp_path: Path, private_server: RunningServer, run: Run) -> Send:
    """Sends tasks to a worker with four children."""
    urls = {"HOLDTIGHT_URL": private_server.url, "BROKER_URL": private_server.url.replace("/0", "/1")}
    folder = unpack("celery", tmp_path)
    (folder / "hung.py").write_text(WITHOUT_A_SOFT_LIMIT)
    (words,) = commands("celery")
    worker = run(folder, ["-m", *words, "--include", "hung", "--without-mingle", "--without-gossip"], **urls)

    def send(code: str) -> None:
        child = run(folder, ["-c", f"from tasks import invoice; from hung import hang; {code}"], **urls)
        assert child.wait(PATIENCE) == 0, child.errors
        assert worker.running, worker.errors

    return send


@pytest.fixture
def locks(private_server: RunningServer) -> Iterator[Locks]:
    with Locks(private_server.url) as locks:
        yield locks


def written(folder: Path, customer: str) -> list[list[str]]:
    path = folder / f"{customer}.invoice"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_tasks_for_one_customer_run_one_after_the_other_and_others_beside_them(send: Send, tmp_path: Path) -> None:
    send("[invoice.delay(customer, pages=5) for customer in ('acme', 'acme', 'bolt')]")
    wait_for(lambda: len(written(tmp_path, "acme")) == 10 and len(written(tmp_path, "bolt")) == 5, within=PATIENCE)
    assert [page for _, page in written(tmp_path, "acme")] == list("01234") * 2


def test_the_soft_time_limit_frees_the_lock_at_once(send: Send, locks: Locks, tmp_path: Path) -> None:
    send("invoice.apply_async(('acme', 1000), soft_time_limit=5, time_limit=120)")
    wait_for(lambda: written(tmp_path, "acme"), within=PATIENCE)
    assert locks.inspect("invoice:acme").holders[0].label  # the id of the task
    with locks.lock("invoice:acme", wait=60):  # it would have been renewed until the hard limit
        pid = int(written(tmp_path, "acme")[0][0])
        assert Path(f"/proc/{pid}").exists()  # the child is there for further tasks
    assert len(written(tmp_path, "acme")) < 1000


def test_the_hard_time_limit_kills_the_child_and_the_lock_is_free_after_its_ttl(
    send: Send, locks: Locks, tmp_path: Path
) -> None:
    send("hang.delay()")
    wait_for(lambda: written(tmp_path, "acme"), within=PATIENCE)
    pid = written(tmp_path, "acme")[0][0]
    wait_for(lambda: ended(pid), what="the child to be killed")
    (holder,) = locks.inspect("invoice:acme").holders  # nobody has released it
    assert str(holder.pid) == pid
    send("invoice.delay('acme', pages=1)")  # comes back until the lock is free
    wait_for(lambda: len(written(tmp_path, "acme")) > 1, within=PATIENCE)
    assert written(tmp_path, "acme")[-1][0] != pid


def ended(pid: str) -> bool:
    """Also if the worker has not collected it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
