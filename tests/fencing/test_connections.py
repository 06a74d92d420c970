"""Every kind of connection that a guard takes: what it calls a transaction, and what it gives to the body."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import psycopg2  # type: ignore[import-untyped]
import pymysql  # type: ignore[import-untyped]
import pytest
import sqlalchemy
from sqlalchemy import orm, text

from holdtight import Locks, NotSupported, StaleFence, WrongTransaction
from holdtight.fencing import SqlGuard
from tests.fencing.databases import Database, MariaDB, Postgres, Sqlite, execute

GUARD = SqlGuard()


class Base(orm.DeclarativeBase):
    pass


class Stock(Base):
    __tablename__ = "stock"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    units: orm.Mapped[int]


@pytest.fixture
def engine(database: Database) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(database.url)
    yield engine
    engine.dispose()


def units(database: Database) -> int:
    return int(database.execute("SELECT units FROM stock")[0][0])


SELL = text("UPDATE stock SET units = units - 1")


def test_an_engine_gives_a_connection_of_its_own(database: Database, engine: sqlalchemy.Engine, locks: Locks) -> None:
    GUARD.create(engine)
    with locks.lock("sku:1") as lease, GUARD.under(lease, engine) as tx:
        tx.execute(SELL)
    assert units(database) == 99
    assert GUARD.seen(engine, "sku:1") == lease.fence
    with pytest.raises(ZeroDivisionError), locks.lock("sku:1") as lease, GUARD.under(lease, engine) as tx:
        tx.execute(SELL)
        _ = 1 / 0
    assert units(database) == 99
    assert GUARD.prune(engine, older_than="1h") == 0
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_a_connection_of_sqlalchemy(database: Database, engine: sqlalchemy.Engine, locks: Locks) -> None:
    with engine.connect() as connection, locks.lock("sku:1") as lease:
        connection.execute(SELL)
        with pytest.raises(WrongTransaction, match="open already"):
            GUARD.under(lease, connection).__enter__()
        connection.rollback()
        with GUARD.under(lease, connection):
            connection.execute(SELL)
        with connection.begin():
            GUARD.claim(connection, lease)
            with pytest.raises(StaleFence):
                GUARD.claim(connection, "sku:1", 1)
    assert units(database) == 99
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with pytest.raises(WrongTransaction, match="autocommit"):
            GUARD.claim(connection, "sku:1", 1)


@pytest.mark.parametrize("kind", ["engine", "connection", "session"])
def test_under_refuses_the_isolation_level_autocommit_where_nothing_begins(
    database: Database, locks: Locks, kind: str
) -> None:
    engine = sqlalchemy.create_engine(database.url, isolation_level="AUTOCOMMIT")
    with ExitStack() as stack, locks.lock("sku:1") as lease:
        conn: Any = engine
        if kind != "engine":
            conn = stack.enter_context(engine.connect() if kind == "connection" else orm.Session(engine))
        refused = database.name != "sqlite"  # there the guard begins by a statement of its own
        with pytest.raises(WrongTransaction if refused else ZeroDivisionError, match="autocommit" if refused else None):
            with GUARD.under(lease, conn) as tx:
                tx.execute(SELL)
                _ = 1 / 0
        assert kind == "engine" or not conn.in_transaction()
        assert GUARD.seen(conn, "sku:1") is None
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    engine.dispose()
    assert units(database) == 100


class NewAutocommit(sqlite3.Connection):
    """As one with autocommit=True, which Python has since 3.12: its commit() and rollback() do nothing."""

    autocommit = True

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


@pytest.mark.parametrize("why", ["skip_autocommit_rollback", "autocommit=True"])
def test_transactions_of_sqlite_that_sqlalchemy_does_not_end_are_refused(
    sqlite: Sqlite, locks: Locks, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """What the body of a first `under` wrote would be lost, or committed by the next one although it had failed."""
    if why == "autocommit=True":
        engine = sqlalchemy.create_engine(sqlite.url, connect_args={"factory": NewAutocommit})
    else:
        engine = sqlalchemy.create_engine(sqlite.url, isolation_level="AUTOCOMMIT")
        monkeypatch.setattr(engine.dialect, "skip_autocommit_rollback", True, raising=False)  # since 2.0.43
    with locks.lock("sku:1") as lease:
        with pytest.raises(WrongTransaction, match="autocommit"), GUARD.under(lease, engine) as tx:
            tx.execute(SELL)
        with engine.connect() as connection, pytest.raises(WrongTransaction, match="autocommit"):
            GUARD.claim(connection, lease)
    sqlite.execute("UPDATE stock SET units = 50")  # nothing holds the database
    engine.dispose()
    assert units(sqlite) == 50


class Adapter:
    """As what SQLAlchemy up to 2.0.42 puts around a connection of aiomysql or asyncmy: no get_autocommit, and
    `autocommit` is a method that sets it."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        if name == "get_autocommit":
            raise AttributeError(name)
        return getattr(self.real, name)


def test_the_driver_below_an_adapter_says_whether_it_autocommits(
    mariadb: MariaDB, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlalchemy.create_engine("mysql+pymysql://", creator=lambda: Adapter(mariadb.connect()))
    monkeypatch.setattr(engine.dialect, "get_driver_connection", lambda adapter: adapter.real)
    with locks.lock("sku:1") as lease:
        with GUARD.under(lease, engine) as tx:
            tx.execute(SELL)
        with engine.begin() as tx:
            GUARD.claim(tx, lease)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            with pytest.raises(WrongTransaction, match="autocommit"):
                GUARD.claim(connection, lease)
    engine.dispose()
    assert units(mariadb) == 99


def locked_elsewhere(sqlite: Sqlite) -> Any:
    other = sqlite.connect(autocommit=True)
    other.execute("BEGIN IMMEDIATE")
    return other


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_a_transaction_that_cannot_begin_leaves_none_open(sqlite: Sqlite, locks: Locks, kind: str) -> None:
    engine = sqlalchemy.create_engine(sqlite.url, connect_args={"timeout": 0})
    GUARD.create(engine)
    made: Any = engine.connect() if kind == "connection" else orm.Session(engine)
    with made as conn, locks.lock("sku:1") as lease:
        other = locked_elsewhere(sqlite)
        with pytest.raises(sqlalchemy.exc.OperationalError, match="locked"):
            GUARD.under(lease, conn).__enter__()
        assert not conn.in_transaction()
        other.execute("ROLLBACK")
        with GUARD.under(lease, conn):
            conn.execute(SELL)
        other.close()
    engine.dispose()
    assert units(sqlite) == 99


@pytest.mark.parametrize("autocommit", [False, True])
def test_psycopg2(postgres: Postgres, locks: Locks, autocommit: bool) -> None:
    with closing(psycopg2.connect(postgres.dsn)) as conn, locks.lock("sku:1") as lease:
        conn.autocommit = autocommit
        GUARD.create(conn)
        with GUARD.under(lease, conn):
            execute(conn, "UPDATE stock SET units = units - 1")
        with pytest.raises(ZeroDivisionError), GUARD.under(lease, conn):
            execute(conn, "UPDATE stock SET units = units - 1")
            _ = 1 / 0
        execute(conn, "BEGIN" if autocommit else "UPDATE stock SET units = units - 1")
        with pytest.raises(WrongTransaction, match="open already"):
            GUARD.under(lease, conn).__enter__()
        assert GUARD.seen(conn, "sku:1") == lease.fence
        with pytest.raises(StaleFence):
            GUARD.claim(conn, "sku:1", 1)
        execute(conn, "ROLLBACK")
        if autocommit:
            with pytest.raises(WrongTransaction, match="autocommit"):
                GUARD.claim(conn, lease)
        assert GUARD.prune(conn, older_than="1h") == 0
    assert units(postgres) == 99


class ByMysqlclient:
    """As a connection of mysqlclient, which has no wheel for Linux: its module, and no `server_status`. With `of_mysql`
    the server has no variable in_transaction either, as MySQL."""

    def __init__(self, real: Any, *, of_mysql: bool) -> None:
        self.real, self.of_mysql = real, of_mysql
        self.commit, self.rollback, self.get_autocommit = real.commit, real.rollback, real.get_autocommit

    def cursor(self) -> Any:
        cursor = self.real.cursor()
        if self.of_mysql:
            run = cursor.execute

            def execute(sql: str, params: Any = ()) -> Any:
                return run(sql.replace("@@in_transaction", "@@no_such_variable"), params)

            cursor.execute = execute
        return cursor


ByMysqlclient.__module__ = "MySQLdb.connections"


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("of_mysql", [False, True], ids=["MariaDB", "MySQL"])
def test_mysqlclient_never_commits_a_transaction_of_the_program(
    mariadb: MariaDB, locks: Locks, of_mysql: bool, autocommit: bool
) -> None:
    with closing(mariadb.connect()) as first:
        GUARD.create(first)
    with closing(mariadb.connect(autocommit=autocommit)) as real, locks.lock("sku:1") as lease:
        conn, knows = ByMysqlclient(real, of_mysql=of_mysql), autocommit or not of_mysql
        if knows:
            with GUARD.under(lease, conn):
                execute(conn, "UPDATE stock SET units = units - 1")
        else:
            with pytest.raises(WrongTransaction, match=r"autocommit\(True\)"):
                GUARD.under(lease, conn).__enter__()
            with pytest.raises(WrongTransaction):
                GUARD.create(conn)
        execute(conn, "BEGIN")
        execute(conn, "UPDATE stock SET units = 0")
        with pytest.raises(WrongTransaction):
            GUARD.under(lease, conn).__enter__()
        with pytest.raises(WrongTransaction):
            GUARD.create(conn)
        GUARD.seen(conn, "sku:1")
        GUARD.prune(conn, older_than="1h")
        execute(conn, "ROLLBACK")
        GUARD.seen(conn, "sku:1")
    assert units(mariadb) == (99 if knows else 100), "no guard has committed what the program took back"


def test_a_session_forgets_what_it_has_read_before_the_claim(
    database: Database, engine: sqlalchemy.Engine, locks: Locks
) -> None:
    with orm.Session(engine, expire_on_commit=False) as session, locks.lock("sku:1") as lease:
        stock = session.get_one(Stock, 1)
        session.commit()
        database.execute("UPDATE stock SET units = 50")
        assert stock.units == 100
        with GUARD.under(lease, session):
            stock.units -= 1
    assert units(database) == 49


def test_changes_of_a_session_from_before_the_claim_are_refused(
    database: Database, engine: sqlalchemy.Engine, locks: Locks
) -> None:
    with orm.Session(engine) as session, locks.lock("sku:1") as lease:
        session.get_one(Stock, 1).units -= 1
        with pytest.raises(WrongTransaction, match=r"changes that are not saved \(Stock\)"):
            GUARD.claim(session, lease)
        session.rollback()
        GUARD.claim(session, lease)
        session.get_one(Stock, 1).units -= 1
        session.commit()
    assert units(database) == 99


def test_a_scoped_session(sqlite: Sqlite, locks: Locks) -> None:
    engine = sqlalchemy.create_engine(sqlite.url)
    scoped = orm.scoped_session(orm.sessionmaker(engine))
    with locks.lock("sku:1") as lease, GUARD.under(lease, scoped) as session:
        session.execute(SELL)
    scoped.remove()
    engine.dispose()
    assert units(sqlite) == 99


def test_sqlalchemy_may_begin_transactions_of_sqlite_by_itself(sqlite: Sqlite, locks: Locks) -> None:
    """As its documentation advises, for savepoints."""
    engine = sqlalchemy.create_engine(sqlite.url)

    @sqlalchemy.event.listens_for(engine, "connect")
    def no_legacy(connection: Any, record: object) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with locks.lock("sku:1") as lease, GUARD.under(lease, engine) as tx:
        with tx.begin_nested() as savepoint:
            tx.execute(SELL)
            savepoint.rollback()
        tx.execute(SELL)
    engine.dispose()
    assert units(sqlite) == 99


def test_rows_may_be_anything_that_the_program_likes(
    sqlite: Sqlite, postgres: Postgres, mariadb: MariaDB, locks: Locks
) -> None:
    rows = sqlite.connect()
    rows.row_factory = sqlite3.Row
    named = psycopg.connect(postgres.dsn, row_factory=psycopg.rows.dict_row)
    dicts: Any = pymysql.connect(
        unix_socket=mariadb.socket, user="root", database="test", cursorclass=pymysql.cursors.DictCursor
    )
    for connection in (rows, named, dicts):
        with closing(connection), locks.lock("sku:1") as lease, GUARD.under(lease, connection):
            pass
        with closing(sqlite.connect()) as connection:
            assert GUARD.seen(connection, "sku:1")


def test_a_savepoint_does_not_end_the_claim(database: Database, locks: Locks) -> None:
    with closing(database.connect()) as connection, locks.lock("sku:1") as lease:
        with GUARD.under(lease, connection):
            execute(connection, "SAVEPOINT s")
            execute(connection, "UPDATE stock SET units = 0")
            execute(connection, "ROLLBACK TO SAVEPOINT s")
            execute(connection, "UPDATE stock SET units = units - 1")
        assert GUARD.seen(connection, "sku:1") == lease.fence
    assert units(database) == 99


def test_other_databases_are_refused() -> None:
    engine = sqlalchemy.create_mock_engine("oracle+oracledb://", lambda *_: None)

    class Connection:
        dialect = engine.dialect
        __module__ = "sqlalchemy.engine"

    with pytest.raises(NotSupported, match="not oracle"):
        GUARD.claim(Connection(), "x", 1)
