"""docs/recipes/django.md, with Django and SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight import Locks
from tests.docs.recipes.page import PATIENCE, Run, unpack
from tests.support.processes import Child, wait_for
from tests.support.servers import RunningServer

SETUP = "import django; django.setup(); from django.db import transaction; from shop.services import *; "


class Project:
    """The program of the page, with an account that has 1000."""

    def __init__(self, folder: Path, url: str, run: Run) -> None:
        self._folder, self._url, self._run = unpack("django", folder), url, run
        self.manage("migrate", "--run-syncdb", "--verbosity", "0")
        assert self.python("Account.objects.create(pk=1, balance=1000)") == []

    def start(self, *words: str) -> Child:
        return self._run(self._folder, words, HOLDTIGHT_URL=self._url, DJANGO_SETTINGS_MODULE="settings")

    def manage(self, *words: str) -> list[str]:
        return self._end(self.start("manage.py", *words))

    def python(self, code: str) -> list[str]:
        return self._end(self.start("-c", SETUP + code))

    def _end(self, child: Child) -> list[str]:
        said = child.lines(PATIENCE)
        assert child.wait(PATIENCE) == 0, child.errors
        return said

    @property
    def balance(self) -> int:
        return int(self.python("print(Account.objects.get(pk=1).balance)")[0])


@pytest.fixture
def project(tmp_path: Path, private_server: RunningServer, run: Run) -> Project:
    return Project(tmp_path, private_server.url, run)


@pytest.fixture
def locks(private_server: RunningServer) -> Iterator[Locks]:
    with Locks(private_server.url) as locks:
        yield locks


def test_no_deposit_is_lost_among_processes(project: Project) -> None:
    children = [project.start("-c", SETUP + "[deposit(1, 1) for _ in range(25)]") for _ in range(4)]
    assert [child.wait(PATIENCE) for child in children] == [0] * 4, [child.errors for child in children]
    assert project.balance == 1100


def test_a_deposit_inside_of_another_transaction_is_refused(project: Project) -> None:
    said = project.python(
        "exec('''try:\n with transaction.atomic(): deposit(1, 1)\nexcept RuntimeError as error: print(error)''')"
    )
    assert "durable" in said[0]
    assert project.balance == 1000


def test_on_commit_keeps_the_lock_until_the_outer_transaction_is_committed(project: Project, locks: Locks) -> None:
    said = project.python(
        "exec('''"
        'lock = locks.lock("account:1")\n'
        "with transaction.atomic():\n deposit_within(1, 5)\n print(lock.locked())\n"
        "print(lock.locked())''')"
    )
    assert said == ["True", "False"]
    assert project.balance == 1005


def test_after_a_rollback_the_lock_is_free_when_its_ttl_is_over(project: Project, locks: Locks) -> None:
    child = project.start(
        "-W",
        "always",
        "-c",
        SETUP + "exec('''"
        "try:\n with transaction.atomic():\n  deposit_within(1, 5)\n  1 / 0\n"
        'except ZeroDivisionError: print("rolled back", flush=True)\n'
        "input()''')",
    )
    child.expect("rolled back", PATIENCE)
    locks.lock("account:1").acquire(wait=20).release()
    wait_for(lambda: "ResourceWarning" in child.errors)
    child.send("")
    assert child.wait(PATIENCE) == 0
    assert project.balance == 1000


def test_the_command_is_skipped_while_it_runs_elsewhere(project: Project, locks: Locks) -> None:
    with locks.lock("interest", label="manage.py interest"):
        (said,) = project.manage("interest")
        assert said.startswith("skipped: ")
        assert "(manage.py interest)" in said
    assert project.balance == 1000
    assert project.manage("interest") == ["paid"]
    assert project.balance == 1010
