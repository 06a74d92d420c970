"""Databases for the tests of guards, each started once per worker."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from holdtight import Locks
from holdtight.fencing import SqlGuard
from tests.fencing.databases import KINDS, Database, MariaDB, Postgres, Sqlite

CLASSES: dict[str, type[Database]] = {"sqlite": Sqlite, "postgresql": Postgres, "mariadb": MariaDB}


@pytest.fixture(scope="session")
def started() -> Iterator[dict[str, Database]]:
    databases: dict[str, Database] = {}
    yield databases
    for database in databases.values():
        database.close()


def _of(started: dict[str, Database], name: str) -> Database:
    if why := CLASSES[name].missing():
        pytest.skip(why)
    if name not in started:
        database = started[name] = KINDS[name]()
        database.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
        with closing(database.connect()) as connection:
            SqlGuard().create(connection)
    database = started[name]
    for table in ("stock", "holdtight_fence"):  # to drop tables takes MariaDB a second
        database.execute(f"DELETE FROM {table}")
    database.execute("INSERT INTO stock (id, units) VALUES (1, 100)")
    return database


@pytest.fixture(params=list(CLASSES))
def database(request: pytest.FixtureRequest, started: dict[str, Database]) -> Database:
    """Each database in turn, with a table `stock` that has 100 units of number 1."""
    return _of(started, request.param)


@pytest.fixture
def postgres(started: dict[str, Database]) -> Any:
    return _of(started, "postgresql")


@pytest.fixture
def mariadb(started: dict[str, Database]) -> Any:
    return _of(started, "mariadb")


@pytest.fixture
def sqlite(started: dict[str, Database]) -> Any:
    return _of(started, "sqlite")


@pytest.fixture
def locks() -> Iterator[Locks]:
    with Locks(f"memory://{secrets.token_hex(4)}") as locks:
        yield locks
