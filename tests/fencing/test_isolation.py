"""The table of docs/fencing.md, cell by cell: two holders, one of them late, and how a database treats them.

`late` held the lock with fence 1 and does not know that it is lost; `next_one` holds it with fence 2. Both take a unit
from a stock of 100. Nothing is lost if the stock is 98 when both have written, or 99 when the database refused one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pymysql  # type: ignore[import-untyped]
import pytest

from holdtight import Locks, StaleFence, WrongTransaction
from holdtight.fencing import SqlGuard
from tests.fencing.databases import Database, execute
from tests.support.processes import wait_for

GUARD = SqlGuard()
LEVELS = [
    *(("sqlite", level) for level in ("deferred", "immediate")),
    *(("postgresql", level) for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")),
    *(("mariadb", level) for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")),
]


class Holder:
    """One connection, in a transaction that `begin` opens."""

    def __init__(self, database: Database, level: str, fence: int) -> None:
        self.connection = database.connect(level)
        self.database, self.level, self.fence = database, level, fence

    def impatient(self) -> None:
        """Makes a statement fail instead of waiting for the other holder: one thread plays both."""
        if self.database.name == "sqlite":
            execute(self.connection, "PRAGMA busy_timeout = 0")
        elif self.database.name == "mariadb":
            execute(self.connection, "SET SESSION innodb_lock_wait_timeout = 1")

    def begin(self) -> None:
        if self.database.name == "sqlite":
            execute(self.connection, f"BEGIN {self.level}")
        elif self.database.name == "mariadb":
            self.connection.begin()

    def read(self) -> int:
        [[units]] = execute(self.connection, "SELECT units FROM stock WHERE id = 1")
        return int(units)

    def write(self, units: int) -> None:
        execute(self.connection, "UPDATE stock SET units = ? WHERE id = 1", units)

    def claim(self) -> None:
        GUARD.claim(self.connection, "sku:1", self.fence)

    def claim_by_hand(self) -> None:
        """As one would write it: one statement that compares and raises."""
        into = "holdtight_fence VALUES ('sku:1', 0, 0)"
        made = f"INSERT INTO {into} ON CONFLICT DO NOTHING"
        execute(self.connection, f"INSERT IGNORE INTO {into}" if self.database.name == "mariadb" else made)
        sql = "UPDATE holdtight_fence SET fence = ?, claims = claims + 1 WHERE name = 'sku:1' AND fence <= ?"
        execute(self.connection, sql, self.fence, self.fence)

    def sell(self) -> None:
        self.write(self.read() - 1)
        self.connection.commit()


@pytest.fixture
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def holders(database: Database, level: str) -> Iterator[tuple[Holder, Holder]]:
    late, next_one = Holder(database, level, 1), Holder(database, level, 2)
    yield late, next_one
    late.connection.close()
    next_one.connection.close()


def stock(database: Database) -> int:
    [[units]] = database.execute("SELECT units FROM stock")
    return int(units)


at_every_level = pytest.mark.parametrize(("database", "level"), LEVELS, indirect=True)
REFUSED = (sqlite3.OperationalError, psycopg.errors.SerializationFailure, pymysql.err.OperationalError)


def waits(database: Database) -> bool:
    """Whether a transaction waits for another. SQLite does not tell."""
    if database.name == "postgresql":
        return bool(database.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
    if database.name == "mariadb":
        # Not information_schema.innodb_lock_waits: InnoDB answers reads of it from a copy that it renews only after
        # nobody has read it for 0.1 s, so a poller that comes too early never sees the wait.
        [[_, _, status]] = database.execute("SHOW ENGINE INNODB STATUS")
        return "LOCK WAIT" in status
    return True


@at_every_level
def test_a_claim_waits_for_the_claim_before_it_and_reads_what_that_one_wrote(
    database: Database, level: str, holders: tuple[Holder, Holder], locks: Locks
) -> None:
    late, _ = holders
    late.begin()
    late.claim()
    units = late.read()
    with locks.lock("sku:1") as lease, ThreadPoolExecutor(1) as pool:

        def sell() -> None:
            connection = database.connect(level)  # a connection of sqlite3 stays in its thread
            with contextlib.closing(connection), GUARD.under(lease, connection):
                [[units]] = execute(connection, "SELECT units FROM stock WHERE id = 1")
                execute(connection, "UPDATE stock SET units = ? WHERE id = 1", units - 1)

        selling = pool.submit(sell)
        wait_for(lambda: waits(database))
        late.write(units - 1)
        late.connection.commit()
        selling.result(30)
    assert stock(database) == 98
    late.begin()
    with pytest.raises(StaleFence):
        late.claim()


@pytest.mark.parametrize("how", ["by a guard", "by hand"])
@at_every_level
def test_nothing_is_lost_if_the_transaction_has_read_before_the_claim(
    database: Database, level: str, holders: tuple[Holder, Holder], how: str
) -> None:
    """A claim by hand, without the comparison of the snapshot, loses an update in one cell."""
    late, next_one = holders
    late.impatient()
    next_one.impatient()
    next_one.begin()
    assert next_one.read() == 100
    outcome = []
    for holder in (late, next_one):
        try:
            if holder is late:
                holder.begin()
            holder.claim() if how == "by a guard" else holder.claim_by_hand()
            holder.sell()
            outcome.append("sold")
        except (*REFUSED, WrongTransaction) as error:
            holder.connection.rollback()
            outcome.append(type(error).__name__)
    lost = how == "by hand" and f"{database} {level}" == "mariadb REPEATABLE READ"
    assert stock(database) == (99 if lost else 100 - outcome.count("sold"))
    if lost:
        assert outcome == ["sold", "sold"]
        return
    assert (
        outcome
        == {
            "sqlite deferred": ["sold", "OperationalError"],  # SQLITE_BUSY_SNAPSHOT
            "sqlite immediate": ["OperationalError", "sold"],  # the other holds the write lock from the start
            "postgresql READ COMMITTED": ["sold", "sold"],
            "postgresql REPEATABLE READ": ["sold", "SerializationFailure"],
            "postgresql SERIALIZABLE": ["sold", "SerializationFailure"],
            "mariadb READ COMMITTED": ["sold", "sold"],
            "mariadb REPEATABLE READ": ["sold", "WrongTransaction"],
            "mariadb SERIALIZABLE": ["OperationalError", "sold"],  # the read has locked the row
        }[f"{database} {level}"]
    )


@pytest.mark.parametrize(("database", "level"), [("mariadb", "REPEATABLE READ")], indirect=True)
@pytest.mark.parametrize("known", [False, True], ids=["a new name", "a known name"])
def test_the_comparison_sees_the_snapshot_of_a_name_that_was_new_then(
    database: Database, holders: tuple[Holder, Holder], known: bool
) -> None:
    """The row that another has inserted since is invisible to plain reads, and the claim finds it all the same."""
    late, next_one = holders
    if known:
        late.begin()
        late.claim()
        late.connection.commit()
    next_one.begin()
    next_one.read()
    late.begin()
    late.claim()
    late.connection.commit()
    with pytest.raises(WrongTransaction, match="read before it claimed"):
        next_one.claim()
    next_one.connection.rollback()
    next_one.claim()


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("how", ["checked when it writes", "autocommit"])
def test_a_check_at_the_time_of_the_write_loses_an_update_everywhere(database: Database, how: str) -> None:
    """The next holder has read, the late one writes, the next one overwrites it: both writes pass the check."""
    database.execute("INSERT INTO holdtight_fence VALUES ('sku:1', 0, 0)")
    connections: list[Any] = [database.connect(autocommit=how == "autocommit") for _ in range(2)]
    late, next_one = connections

    def read(connection: Any) -> int:
        [[units]] = execute(connection, "SELECT units FROM stock")
        connection.commit()
        return int(units)

    def write(connection: Any, units: int, fence: int) -> None:
        sql = "UPDATE holdtight_fence SET fence = ?, claims = claims + 1 WHERE fence <= ?"
        execute(connection, sql, fence, fence)
        execute(connection, "UPDATE stock SET units = ?", units)
        connection.commit()

    before = read(late), read(next_one)
    write(late, before[0] - 1, fence=1)
    write(next_one, before[1] - 1, fence=2)
    assert read(late) == 99
    assert database.execute("SELECT fence, claims FROM holdtight_fence") == [(2, 2)]  # both passed the check
    for connection in connections:
        connection.close()
