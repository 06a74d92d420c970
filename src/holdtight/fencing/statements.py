"""The SQL of a guard's table, per database. `?` marks a parameter; a link translates it to the style of its driver."""

import functools
import re
from typing import Literal, NamedTuple

__all__ = ["Dialect", "Statements", "marked", "statements"]

Dialect = Literal["sqlite", "postgresql", "mysql"]
"""`mysql` includes MariaDB."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class Statements(NamedTuple):
    create: tuple[str, ...]
    claim: str
    """SQLite and PostgreSQL: raises the stored fence and returns it, or returns no row. MySQL: creates the row if it is
    missing, and locks it."""
    seen: str
    prune: str
    current: str = ""
    """MySQL: reads the current fence and claims, and locks the row."""
    snapshot: str = ""
    """MySQL: reads fence and claims from the snapshot of this transaction."""
    update: str = ""
    """MySQL: raises the stored fence."""


@functools.cache
def statements(table: str, dialect: Dialect) -> Statements:
    """`table` is an identifier, or two with a dot between them; anything else is a ValueError."""
    parts = table.split(".")
    if len(parts) > 2 or not all(_IDENTIFIER.fullmatch(part) for part in parts):
        raise ValueError(
            f"table={table!r} is not a table's name: use letters, digits and _, with an optional schema before a dot"
        )
    quote = "`" if dialect == "mysql" else '"'
    into = ".".join(quote + part + quote for part in parts)
    seen = f"SELECT fence FROM {into} WHERE name = ?"
    prune = f"DELETE FROM {into} WHERE fence < ?"
    if dialect == "mysql":
        read = f"SELECT fence, claims FROM {into} WHERE name = ?"
        return Statements(
            (
                f"CREATE TABLE IF NOT EXISTS {into} (name VARBINARY(512) NOT NULL PRIMARY KEY, "
                "fence BIGINT NOT NULL, claims BIGINT NOT NULL) ENGINE=InnoDB",
            ),
            # An existing row is not changed: its version must remain that of the last change.
            f"INSERT INTO {into} (name, fence, claims) VALUES (?, 0, 0) ON DUPLICATE KEY UPDATE claims = claims",
            seen,
            prune,
            read + " FOR UPDATE",
            read,
            f"UPDATE {into} SET fence = ?, claims = claims + 1 WHERE name = ?",
        )
    text, number = ('TEXT COLLATE "C"', "BIGINT") if dialect == "postgresql" else ("TEXT", "INTEGER")
    create = (
        f"CREATE TABLE IF NOT EXISTS {into} (name {text} NOT NULL PRIMARY KEY, "
        f"fence {number} NOT NULL, claims {number} NOT NULL)"
    )
    # Two programs that create a table at the same time collide in PostgreSQL's catalog.
    one_by_one = f"SELECT pg_advisory_xact_lock(hashtext('{table}'))"
    return Statements(
        (one_by_one, create) if dialect == "postgresql" else (create,),
        f"INSERT INTO {into} AS held (name, fence, claims) VALUES (?, ?, 1) ON CONFLICT (name) DO UPDATE "
        "SET fence = excluded.fence, claims = held.claims + 1 WHERE held.fence <= excluded.fence RETURNING fence",
        seen,
        prune,
    )


@functools.lru_cache(1000)  # bounded: a guard with end_paused writes a time into its statement
def marked(sql: str, style: str) -> str:
    """The statement with its parameters in the style of a driver: `?`, `%s`, `$1` or `:p1`."""
    if style == "?":
        return sql
    parts = sql.split("?")
    if style == "%s":
        return "%s".join(parts)
    return parts[0] + "".join(f"{style}{number}{part}" for number, part in enumerate(parts[1:], 1))
