"""What SqlGuard promises, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from holdtight import Lease, LeaseLost, Locks, NotSupported, StaleFence, WrongTransaction
from holdtight.fencing import SqlGuard
from holdtight.testing import lose
from tests.fencing.databases import Database, Postgres, execute
from tests.support.processes import wait_for

GUARD = SqlGuard()


@pytest.fixture
def connection(database: Database) -> Iterator[Any]:
    with closing(database.connect()) as connection:
        yield connection


def units(database: Database) -> int:
    return int(database.execute("SELECT units FROM stock")[0][0])


def sell(connection: Any) -> None:
    execute(connection, "UPDATE stock SET units = units - 1")


def test_a_claim_keeps_the_highest_fence_and_refuses_lower_ones(connection: Any) -> None:
    assert GUARD.seen(connection, "sku:1") is None
    for fence in (7, 7, 2**60):
        GUARD.claim(connection, "sku:1", fence)
        connection.commit()
    with pytest.raises(StaleFence, match=f"fence 8 is stale, {2**60} has been"):
        GUARD.claim(connection, "sku:1", 8)
    connection.rollback()
    assert GUARD.seen(connection, "sku:1") == 2**60
    assert execute(connection, "SELECT claims FROM holdtight_fence") == [(3,)]


def test_a_claim_ends_with_its_transaction(connection: Any) -> None:
    GUARD.claim(connection, "sku:1", 7)
    connection.rollback()
    assert GUARD.seen(connection, "sku:1") is None


def test_names_are_compared_byte_by_byte(connection: Any) -> None:
    names = ["strasse", "straße", "Strasse", "strasse ", "ключ", "x" * 512]
    for fence, name in enumerate(names, 1):
        GUARD.claim(connection, name, fence)
    connection.commit()
    assert [GUARD.seen(connection, name) for name in names] == [1, 2, 3, 4, 5, 6]


def test_a_block_under_a_lease_is_one_transaction(database: Database, connection: Any, locks: Locks) -> None:
    with locks.lock("sku:1") as lease, GUARD.under(lease, connection) as tx:
        assert tx is connection
        sell(tx)
    assert units(database) == 99
    assert GUARD.seen(connection, "sku:1") == lease.fence
    with pytest.raises(ZeroDivisionError), locks.lock("sku:1") as lease, GUARD.under(lease, connection):
        sell(connection)
        _ = 1 / 0
    assert units(database) == 99


def test_a_block_works_on_a_connection_in_autocommit_mode(database: Database, connection: Any, locks: Locks) -> None:
    with closing(database.connect(autocommit=True)) as own, locks.lock("sku:1") as lease:
        with pytest.raises(ZeroDivisionError), GUARD.under(lease, own):
            sell(own)
            _ = 1 / 0
        assert units(database) == 100
        with GUARD.under(lease, own):
            sell(own)
        assert units(database) == 99


def test_a_lease_that_is_lost_before_the_commit_writes_nothing(
    database: Database, connection: Any, locks: Locks
) -> None:
    lease = locks.lock("sku:1").acquire()
    with pytest.raises(LeaseLost), GUARD.under(lease, connection):
        sell(connection)
        lose(lease)
    assert units(database) == 100
    with pytest.raises(LeaseLost), GUARD.under(lease, connection):
        pytest.fail("the body ran")


def test_a_claim_needs_a_transaction(database: Database, connection: Any, locks: Locks) -> None:
    with closing(database.connect(autocommit=True)) as own:
        with pytest.raises(WrongTransaction, match="autocommit mode"):
            GUARD.claim(own, "sku:1", 7)
        execute(own, "BEGIN")
        GUARD.claim(own, "sku:1", 7)
        execute(own, "ROLLBACK")


def test_a_block_refuses_an_open_transaction(database: Database, connection: Any, locks: Locks) -> None:
    sell(connection)
    with locks.lock("sku:1") as lease:
        with pytest.raises(WrongTransaction, match="a transaction is open already"):
            GUARD.under(lease, connection).__enter__()
        connection.rollback()
        with GUARD.under(lease, connection):
            pass


def test_a_body_that_ends_the_transaction_is_told(database: Database, connection: Any, locks: Locks) -> None:
    if isinstance(database, Postgres):
        with locks.lock("sku:1") as lease, GUARD.under(lease, connection):
            sell(connection)
            with pytest.raises(Exception, match="forbidden within a Transaction"):
                connection.commit()
    else:
        with (
            pytest.raises(WrongTransaction, match="ended the transaction"),
            locks.lock("sku:1") as lease,
            GUARD.under(lease, connection),
        ):
            connection.commit()


def test_a_multi_claims_every_name_and_none_if_one_is_stale(connection: Any, locks: Locks) -> None:
    GUARD.claim(connection, "sku:2", 2**62)
    connection.commit()
    with locks.multi("sku:3", "sku:1") as lease, GUARD.under(lease, connection):
        pass
    assert [GUARD.seen(connection, name) for name in ("sku:1", "sku:3")] == [
        lease.fences["sku:1"],
        lease.fences["sku:3"],
    ]
    with locks.multi("sku:4", "sku:2") as lease, pytest.raises(StaleFence), GUARD.under(lease, connection):
        pytest.fail("the body ran")
    assert GUARD.seen(connection, "sku:4") is None


def test_old_names_are_pruned_by_their_fence(connection: Any, locks: Locks) -> None:
    with locks.lock("new") as lease:
        GUARD.claim(connection, lease)
    GUARD.claim(connection, "old", lease.fence - 800 * 3_600_000_000)
    connection.commit()
    assert GUARD.prune(connection, older_than="720h") == 1
    assert GUARD.seen(connection, "old") is None
    assert GUARD.seen(connection, "new") == lease.fence


def test_eight_programs_create_the_table_at_once(database: Database) -> None:
    guard = SqlGuard("fences_2")

    def create(_: int) -> None:
        with closing(database.connect()) as connection:
            guard.create(connection)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(8)))
    assert database.execute("SELECT * FROM fences_2") == []
    database.execute("DROP TABLE fences_2")


def test_create_joins_a_transaction_or_refuses_where_that_would_commit_it(database: Database) -> None:
    guard = SqlGuard("fences_3")
    with closing(database.connect()) as connection:
        sell(connection)
        if database.name == "mariadb":
            with pytest.raises(WrongTransaction, match="MySQL would commit it"):
                guard.create(connection)
        else:
            guard.create(connection)
        connection.rollback()
    assert units(database) == 100


def test_a_paused_holder_loses_its_connection_instead_of_blocking_the_next(postgres: Postgres, locks: Locks) -> None:
    guard = SqlGuard(end_paused=True)
    with closing(postgres.connect()) as paused, closing(postgres.connect()) as connection:
        lease: Lease = locks.lock("sku:1", ttl=0.5, renew=False).acquire()
        with pytest.raises(Exception, match="idle-in-transaction timeout") as caught, guard.under(lease, paused):
            sell(paused)
            # Paused here: the next holder must not wait for us.
            execute(connection, "SET lock_timeout = '20s'")
            connection.commit()
            with locks.lock("sku:1", wait=30) as next_lease, guard.under(next_lease, connection):
                sell(connection)
            execute(paused, "SELECT 1")
        assert type(caught.value).__name__ == "IdleInTransactionSessionTimeout"
        assert units(postgres) == 99


def test_a_statement_that_failed_inside_is_not_taken_for_success(postgres: Postgres, locks: Locks) -> None:
    """PostgreSQL then answers COMMIT with a rollback, and only the command tag says so."""
    with closing(postgres.connect()) as connection, locks.lock("sku:1") as lease:
        with pytest.raises(WrongTransaction, match="failed, and the body went on"), GUARD.under(lease, connection):
            sell(connection)
            with pytest.raises(Exception, match="does not exist"):
                execute(connection, "SELECT * FROM nothing_of_that_name")
        assert units(postgres) == 100


def test_a_claim_that_another_transaction_refused_is_begun_again(postgres: Postgres, locks: Locks) -> None:
    with closing(postgres.connect()) as late, ThreadPoolExecutor(1) as pool, locks.lock("sku:1") as lease:
        GUARD.claim(late, "sku:1", 1)

        def claim() -> None:
            with closing(postgres.connect("SERIALIZABLE")) as connection, GUARD.under(lease, connection):
                sell(connection)

        claiming = pool.submit(claim)
        wait_for(lambda: postgres.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
        sell(late)
        late.commit()
        claiming.result(30)
    assert units(postgres) == 98


def test_three_rights_on_the_table_are_enough(postgres: Postgres, locks: Locks) -> None:
    postgres.execute("CREATE ROLE shop LOGIN")
    try:
        postgres.execute("GRANT SELECT, INSERT, UPDATE ON holdtight_fence, stock TO shop")
        dsn = postgres.dsn.replace("user=postgres", "user=shop")
        for _ in range(2):  # the first claim inserts, the next updates
            with closing(psycopg.connect(dsn)) as connection, locks.lock("sku:1") as lease:
                with GUARD.under(lease, connection):
                    sell(connection)
                assert GUARD.seen(connection, "sku:1") == lease.fence
        assert units(postgres) == 98
    finally:
        postgres.execute("DROP OWNED BY shop")
        postgres.execute("DROP ROLE shop")


# What is refused before a database is asked.


@pytest.mark.parametrize("table", ["", "a b", "x;y", 'a"b', "1a", "a.b.c", "a.", "x" * 64])
def test_a_table_is_an_identifier(table: str) -> None:
    with pytest.raises(ValueError, match="is not a table's name"):
        SqlGuard(table)
    SqlGuard("my_schema.Fences")


def test_leases_that_share_cannot_claim(sqlite: Database, locks: Locks) -> None:
    with closing(sqlite.connect()) as connection:
        for lock in (locks.rwlock("book").read(), locks.semaphore("seats", permits=2)):
            with lock as lease, pytest.raises(NotSupported, match="several hold it at the same time"):
                GUARD.claim(connection, lease)
        with (
            locks.multi(locks.rwlock("book").read(), "x") as lease,
            pytest.raises(NotSupported, match="several hold it"),
        ):
            GUARD.claim(connection, lease)


def test_a_degraded_lease_cannot_claim(sqlite: Database) -> None:
    with (
        Locks("redis://127.0.0.1:1", on_unavailable="open", connect_timeout=0.1) as locks,
        closing(sqlite.connect()) as connection,
        locks.lock("x") as lease,
        pytest.raises(NotSupported, match="degraded"),
    ):
        GUARD.claim(connection, lease)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("x", 0), ValueError),
        (("x", 2**63), ValueError),
        (("x", True), TypeError),
        (("x", None), TypeError),
        (("", 1), ValueError),
        ((7, 1), TypeError),
    ],
)
def test_wrong_arguments_of_a_claim(args: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        GUARD.claim(object(), *args)


def test_what_is_no_connection_is_named() -> None:
    with pytest.raises(TypeError, match="conn is a object, not a connection that a guard knows"):
        GUARD.claim(object(), "x", 1)
