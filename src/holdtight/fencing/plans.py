"""What a guard does, for every driver and both colours: generators that yield actions on a link.

An action is the name of a method of the link (links.py, aio_links.py) and its arguments. `drive` (sql.py, aio.py) runs
the action, or awaits it, and sends back what it returned or throws in what it raised.
"""

import time
from collections.abc import Generator
from typing import Any, NamedTuple

from holdtight.base import refusals
from holdtight.base.clock import seconds
from holdtight.base.names import check_name
from holdtight.base.values import Kind
from holdtight.errors import StaleFence
from holdtight.fencing.statements import Statements, statements
from holdtight.grants.lease import BaseLease

__all__ = ["Action", "Plan", "claim", "claims_of", "create", "enter", "leave", "prune", "seen"]

LARGEST_FENCE = 2**63 - 1


class Action(NamedTuple):
    verb: str
    args: tuple[Any, ...] = ()


Plan = Generator[Action, Any, Any]
Claims = list[tuple[str, int]]

_BEGIN, _COMMIT, _IS_OPEN = Action("begin"), Action("commit"), Action("is_open")


def _run(sql: str, *params: object) -> Action:
    return Action("run", (sql, params))


def claims_of(lease: object, fence: object = None) -> Claims:
    """The names and fences to claim, in the one order that all transactions use."""
    if isinstance(lease, str):
        check_name(lease)
        if isinstance(fence, bool) or not isinstance(fence, int):
            raise TypeError(f"fence must be an int, not {type(fence).__name__}")
        if not 0 < fence <= LARGEST_FENCE:
            raise ValueError(f"fence={fence} is out of range: 1 to 2**63 - 1")
        return [(lease, fence)]
    if not isinstance(lease, BaseLease):
        raise TypeError(f"claim takes a lease, or a name and a fence, not {type(lease).__name__}")
    if fence is not None:
        raise TypeError("claim takes a lease, or a name and a fence: a lease has its own fence")
    for tenure in lease.tenures:
        if tenure.stand_in is not None:
            raise refusals.no_fence(tenure.name)
        if tenure.kind is not Kind.EXCLUSIVE:
            raise refusals.claim_shared(tenure.name, tenure.kind.text)
    return sorted(lease.fences.items(), key=lambda each: each[0].encode())


def claim(link: Any, table: str, claims: Claims) -> Plan:
    """Claims in a transaction of the caller."""
    if (yield Action("autocommits")):
        raise refusals.autocommit(claims[0][0])
    yield from _claim(link, table, claims)


def _claim(link: Any, table: str, claims: Claims) -> Plan:
    if changed := (yield Action("unsaved")):
        raise refusals.changed_before_claim(claims[0][0], changed)
    use = statements(table, link.dialect)
    one = _claim_in_mysql if link.dialect == "mysql" else _claim_in_one_statement
    for name, fence in claims:
        yield from one(use, name, fence)
    yield Action("forget")


def _claim_in_one_statement(use: Statements, name: str, fence: int) -> Plan:
    """One statement locks the row, waits for its holder, and compares. The database itself refuses a transaction whose
    reads are older than the row."""
    if not (yield _run(use.claim, name, fence)):
        [[highest]] = yield _run(use.seen, name)
        raise StaleFence.below(name, fence, highest)


def _claim_in_mysql(use: Statements, name: str, fence: int) -> Plan:
    """InnoDB locks and writes the newest row, but plain reads see the snapshot of the transaction's first read. If they
    see another row than the lock did, they see old data too. The comparison comes before our own write, which plain
    reads would see."""
    key = name.encode()
    yield _run(use.claim, key)
    [now] = yield _run(use.current, key)
    read = yield _run(use.snapshot, key)
    if read != [now]:
        raise refusals.old_snapshot(name)
    if now[0] > fence:
        raise StaleFence.below(name, fence, now[0])
    yield _run(use.update, fence, key)


def enter(link: Any, table: str, lease: BaseLease, claims: Claims, end_paused: bool) -> Plan:
    """Begins and claims; begins again if another transaction was in the way, as long as the lease lasts."""
    if (yield Action("is_busy")):
        raise refusals.transaction_open(lease.name)
    while True:
        lease.check()
        left = lease.remaining()
        try:
            yield _BEGIN  # inside: SQLAlchemy's begin may succeed where SQLite's own fails
            if (yield Action("autocommits")):  # SQLAlchemy's begin does nothing then
                raise refusals.autocommit(lease.name)
            if end_paused and link.dialect == "postgresql" and left != float("inf"):
                # PostgreSQL ends the session of a holder that is idle for longer, and frees the row.
                yield _run(f"SET LOCAL idle_in_transaction_session_timeout = {max(1, int(left * 1000))}")
            yield from _claim(link, table, claims)
            return
        except BaseException as error:
            yield from _roll_back(error)
            if not was_in_the_way(error) or lease.lost:
                raise


def _roll_back(error: BaseException) -> Plan:
    try:
        yield Action("rollback", (error,))
    except Exception:
        pass  # a broken connection has rolled back already; `error` says why


def leave(link: Any, lease: BaseLease) -> Plan:
    """Commits if the lease still holds, and the transaction is the one that claimed."""
    lease.check()
    if (yield _IS_OPEN) is False:
        raise refusals.ended_inside(lease.name)
    if (yield Action("is_broken")):
        raise refusals.failed_inside(lease.name)
    yield Action("probe")
    yield _COMMIT


def _alone(link: Any, work: Plan) -> Plan:
    """Runs `work` in the caller's transaction, or in one of its own. If nothing tells whether a transaction is open, a
    BEGIN might commit it, so `work` runs without."""
    if (yield _IS_OPEN) is not False:
        return (yield from work)
    try:
        yield _BEGIN
        found = yield from work
        yield _COMMIT
        return found
    except BaseException as error:
        yield from _roll_back(error)
        raise


def create(link: Any, table: str) -> Plan:
    use = statements(table, link.dialect)
    if link.dialect == "mysql" and (yield _IS_OPEN) is not False:
        raise refusals.create_commits(table)

    def work() -> Plan:
        for sql in use.create:
            yield _run(sql)

    yield from _alone(link, work())


def seen(link: Any, table: str, name: str) -> Plan:
    check_name(name)
    use = statements(table, link.dialect)

    def work() -> Plan:
        rows = yield _run(use.seen, name.encode() if link.dialect == "mysql" else name)
        return rows[0][0] if rows else None

    return (yield from _alone(link, work()))


def prune(link: Any, table: str, older_than: object) -> Plan:
    oldest = int((time.time() - seconds(older_than, "older_than")) * 1_000_000)
    use = statements(table, link.dialect)

    def work() -> Plan:
        return (yield Action("count", (use.prune, (oldest,))))

    return (yield from _alone(link, work()))


SERIALIZATION = {"40001", "40P01"}
"""SQLSTATE of PostgreSQL: serialization failure, deadlock."""
IN_THE_WAY = {1213, 1020}
"""Numbers of MySQL and MariaDB: deadlock, record has changed."""


def was_in_the_way(error: BaseException | None) -> bool:
    """Whether the database refused because of another transaction: a new transaction may succeed."""
    while error is not None:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state in SERIALIZATION:
            return True
        module = type(error).__module__.partition(".")[0]
        if module in ("pymysql", "MySQLdb") and error.args and error.args[0] in IN_THE_WAY:
            return True
        error = getattr(error, "orig", None) or error.__cause__
    return False
