"""The guard of a SQL database, for blocking code."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, overload

from holdtight.fencing import plans
from holdtight.fencing.links import DatabaseLink, link_to
from holdtight.fencing.statements import statements

if TYPE_CHECKING:
    from holdtight.config.options import Duration
    from holdtight.sync.lease import Lease

__all__ = ["BaseGuard", "SqlGuard"]


class BaseGuard:
    """What both colours share: the settings."""

    def __init__(self, table: str = "holdtight_fence", *, end_paused: bool = False) -> None:
        if not isinstance(table, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"table must be a str, not {type(table).__name__}")
        statements(table, "sqlite")
        self.table, self.end_paused = table, end_paused

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}{', end_paused=True' if self.end_paused else ''})"


def drive(link: DatabaseLink, plan: plans.Plan) -> Any:
    """Runs a plan to its end."""
    try:
        action = next(plan)
        while True:
            try:
                answer = getattr(link, action.verb)(*action.args)
            except BaseException as error:
                action = plan.throw(error)
            else:
                action = plan.send(answer)
    except StopIteration as end:
        return end.value


@contextmanager
def _linked(conn: object) -> Generator[DatabaseLink, None, None]:
    link = link_to(conn)
    try:
        yield link
    finally:
        link.close()


class SqlGuard(BaseGuard):
    """Keeps the highest fence of each name in a table of your database, next to your data, so that a holder that has
    lost its lease can change nothing there. For SQLite, PostgreSQL, MySQL and MariaDB.

    A connection is one of sqlite3, psycopg, psycopg2, PyMySQL or mysqlclient, SQLAlchemy's Engine, Connection or
    Session, or Django's connection or alias.

    Options:
        table: the name of the table, an identifier with an optional schema. Default "holdtight_fence".
        end_paused: whether PostgreSQL ends the connection of a holder that stays idle in `under` for longer than the
            rest of its lease, so that a paused holder does not block the next one. Default False.

    Raises TypeError or ValueError for a table that is not allowed.

    Example:
        >>> from holdtight.fencing import SqlGuard
        >>> guard = SqlGuard()
        >>> guard.create(conn)
        >>> with locks.lock("sku:1") as lease, guard.under(lease, conn) as tx:
        ...     [left] = tx.execute("SELECT stock FROM sku WHERE id = 1").fetchone()
        ...     _ = tx.execute("UPDATE sku SET stock = ? WHERE id = 1", (left - 1,))
    """

    def create(self, conn: Any) -> None:
        """Creates the table through `conn` if it is not there. Commits, unless a transaction of yours is open.

        Example:
            >>> guard.create(conn)
        """
        with _linked(conn) as link:
            drive(link, plans.create(link, self.table))

    @overload
    def claim(self, conn: Any, lease: "Lease", /) -> None: ...
    @overload
    def claim(self, conn: Any, name: str, fence: int, /) -> None: ...
    def claim(self, conn: Any, lease: "Lease | str", fence: int | None = None, /) -> None:
        """Raises the stored fence to this one, in a transaction of yours on `conn`, and holds the row until that
        ends. Claim before you read: reads after it see all that earlier holders have written, and later writes of
        theirs fail. The objects of a Session are expired. Takes a `lease`, or a name and its `fence`.

        Raises StaleFence if a higher fence is stored; WrongTransaction in autocommit mode, or if reads of this
        transaction would show old data; NotSupported for a reader's, a semaphore's or a degraded lease.

        Example:
            >>> with locks.lock("sku:1") as lease, conn:
            ...     guard.claim(conn, lease)
            ...     _ = conn.execute("UPDATE sku SET stock = stock - 1 WHERE id = 1")
        """
        claims = plans.claims_of(lease, fence)
        with _linked(conn) as link:
            drive(link, plans.claim(link, self.table, claims))

    @contextmanager
    def under(self, lease: "Lease", conn: Any) -> Generator[Any, None, None]:
        """A transaction under a `lease`: begins, claims, runs the body, commits. It gives the connection, or a new one
        if `conn` is an Engine. Rolls back if the body raises or the lease is lost before the commit.

        Raises what `claim` raises; WrongTransaction if a transaction is open already; LeaseLost if the lease is lost.

        Example:
            >>> with locks.lock("sku:1") as lease, guard.under(lease, conn) as tx:
            ...     _ = tx.execute("UPDATE sku SET stock = stock - 1 WHERE id = 1")
        """
        claims, link = plans.claims_of(lease), link_to(conn)
        try:
            drive(link, plans.enter(link, self.table, lease, claims, self.end_paused))
            try:
                yield link.handle
                drive(link, plans.leave(link, lease))
            except BaseException as error:
                with suppress(Exception):  # a broken connection has rolled back already; `error` says why
                    link.rollback(error)
                raise
        finally:
            link.close()

    def seen(self, conn: Any, name: str) -> int | None:
        """The highest fence that has claimed this name, or None. `conn` as for `create`.

        Example:
            >>> guard.seen(conn, "sku:2") is None
            True
        """
        with _linked(conn) as link:
            found: int | None = drive(link, plans.seen(link, self.table, name))
            return found

    def prune(self, conn: Any, older_than: "Duration") -> int:
        """Removes the names whose last grant is `older_than` that, and returns how many. Fences are microseconds of the
        lock server's clock, compared with the clock here. Use far more than a holder can be paused for. `conn` as for
        `create`.

        Example:
            >>> guard.prune(conn, older_than="720h")
            0
        """
        with _linked(conn) as link:
            return int(drive(link, plans.prune(link, self.table, older_than)))
