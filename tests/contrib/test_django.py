"""holdtight.contrib.django: a project with manage.py, on SQLite and on PostgreSQL, in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight import Locks
from tests.docs.recipes.page import PATIENCE, Run
from tests.fencing.databases import Postgres
from tests.support.processes import Child
from tests.support.servers import RunningServer

SETTINGS = """
import os
SECRET_KEY = "only for this test"
INSTALLED_APPS = ["holdtight.contrib.django", "shop"]
DATABASES = {"default": %s}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
HOLDTIGHT = {"target": os.environ["LOCKS"], "ttl": 10}
"""
MODELS = """
from django.db import models

class Account(models.Model):
    balance = models.IntegerField(default=0)
"""
SERVICES = """
from django.db import transaction
from holdtight import WrongTransaction
from holdtight.contrib.django import async_locks, guard, locked, locks
from shop.models import Account

def deposit(amount):
    with locked("account:1", wait=30) as lease:
        account = Account.objects.get(pk=1)
        account.balance += amount
        account.save()
        return lease.fence
"""
INTEREST = """
from django.core.management.base import BaseCommand
from shop.services import deposit

class Command(BaseCommand):
    def add_arguments(self, parser):
        parser.add_argument("amount", type=int)

    def handle(self, amount, **options):
        deposit(amount)
        self.stdout.write("paid")
"""
MANAGE = "import sys; from django.core.management import execute_from_command_line; execute_from_command_line(sys.argv)"
SETUP = "import django; django.setup(); from shop.services import *; from django.db import connection\n"


class Project:
    def __init__(self, folder: Path, database: str, url: str, run: Run) -> None:
        self._folder, self._url, self._run = folder, url, run
        for name, text in {
            "settings.py": SETTINGS % database,
            "shop/__init__.py": "",
            "shop/models.py": MODELS,
            "shop/services.py": SERVICES,
            "shop/management/commands/interest.py": INTEREST,
            "manage.py": MANAGE,
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.manage("migrate", "--run-syncdb", "--verbosity", "0")
        self.python("Account.objects.create(pk=1, balance=1000)")

    def start(self, *words: str) -> Child:
        return self._run(self._folder, words, LOCKS=self._url, DJANGO_SETTINGS_MODULE="settings")

    def manage(self, *words: str) -> tuple[list[str], str]:
        return self._end(self.start("manage.py", *words))

    def python(self, code: str) -> list[str]:
        return self._end(self.start("-c", SETUP + code))[0]

    def _end(self, child: Child) -> tuple[list[str], str]:
        said = child.lines(PATIENCE)
        assert child.wait(PATIENCE) == 0, child.errors
        return said, child.errors

    @property
    def balance(self) -> int:
        return int(self.python("print(Account.objects.get(pk=1).balance)")[0])


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, private_server: RunningServer, run: Run
) -> Iterator[Project]:
    if request.param == "sqlite":
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db"), "OPTIONS": {"timeout": 20}}
        yield Project(tmp_path, repr(database), private_server.url, run)
        return
    if why := Postgres.missing():
        pytest.skip(why)
    with Postgres() as postgres:
        settings = {"NAME": "postgres", "USER": "postgres", "HOST": str(postgres.folder)}
        yield Project(tmp_path, repr({"ENGINE": "django.db.backends.postgresql", **settings}), private_server.url, run)


def test_a_project_locks_claims_and_commits(project: Project) -> None:
    """One project for all of it: a process of Django takes a second to start."""
    children = [project.start("-c", SETUP + "[deposit(1) for _ in range(30)]") for _ in range(2)]
    assert [child.wait(PATIENCE) for child in children] == [0] * 2, [child.errors for child in children]
    said = project.python("""
fence = deposit(1)
print(guard.seen("default", "account:1") == fence, guard.seen(connection, "account:1") == fence)
try:
    with transaction.atomic():
        deposit(1000)
except WrongTransaction as error:
    print("outside of atomic" in str(error))
try:
    with locked("account:1"):
        Account.objects.update(balance=0)
        1 / 0
except ZeroDivisionError:
    print("rolled back")
with transaction.atomic(), locks.lock("account:1") as lease:
    guard.claim("default", lease)
    print(guard.seen(connection, "account:1") == lease.fence)
try:
    guard.claim("default", "account:1", 1)
except WrongTransaction as error:
    print("autocommit" in str(error))
from django.test import TestCase
import unittest
class T(TestCase):
    def test_x(self):
        deposit(500)
print(unittest.TextTestRunner(stream=open("/dev/null", "w")).run(T("test_x")).wasSuccessful())
import asyncio
async def main():
    async with async_locks.lock("account:2") as lease:
        print(lease.ttl)
asyncio.run(main())
""")
    assert said == ["True True", "True", "rolled back", "True", "True", "True", "10.0"]
    assert project.balance == 1061
    project.manage("migrate", "holdtight", "zero", "--verbosity", "0")


@pytest.mark.long
def test_a_command_runs_on_one_host(project: Project, private_server: RunningServer) -> None:
    run = ("holdtight_run", "interest", "--at-least", "1h", "interest", "7")
    assert project.manage(*run)[0] == ["paid"]
    said, errors = project.manage(*run)
    assert said == []
    assert "interest: skipped, done by " in errors
    with Locks(private_server.url) as locks, locks.lock("other"):
        said, errors = project.manage("holdtight_run", "other", "interest", "7")
        assert (said, "other: skipped, running" in errors) == ([], True)
    assert project.balance == 1007
