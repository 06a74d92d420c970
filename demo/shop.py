"""The shop's database: SQLite, which every process of the shop opens for itself.

Reading the stock and writing it back are two steps, as they are in a shop whose stock, payment and
orders live in different services. Nothing here protects the steps from each other: that is the lock's job.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = """
CREATE TABLE article (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL);
CREATE TABLE sale (id INTEGER PRIMARY KEY, article INTEGER NOT NULL);
CREATE TABLE cache (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE computation (id INTEGER PRIMARY KEY, key TEXT NOT NULL);
"""


class Shop:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        # It lives for a minute, in a temporary folder: it need not survive a power cut.
        self._db.execute("PRAGMA synchronous = OFF")

    @classmethod
    def create(cls, path: Path, articles: int, stock: int) -> Shop:
        """A new shop with `stock` units in all, spread evenly."""
        shop = cls(path)
        shop._db.execute("PRAGMA journal_mode = WAL")
        shop._db.executescript(SCHEMA)
        shares = [(number, stock // articles + (number < stock % articles)) for number in range(articles)]
        shop._db.executemany("INSERT INTO article VALUES (?, ?)", shares)
        return shop

    def stock(self, article: int) -> int:
        row = self._db.execute("SELECT stock FROM article WHERE id = ?", (article,)).fetchone()
        return int(row[0])

    def sell(self, article: int, stock_left: int) -> None:
        """Write down one sale, and the stock that the seller believes to be left."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE article SET stock = ? WHERE id = ?", (stock_left, article))
            self._db.execute("INSERT INTO sale (article) VALUES (?)", (article,))

    def cached(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM cache WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def store(self, key: str, value: str) -> None:
        """Fill the cache, and note that the value had to be computed."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT OR REPLACE INTO cache VALUES (?, ?)", (key, value))
            self._db.execute("INSERT INTO computation (key) VALUES (?)", (key,))

    def units_sold(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM sale").fetchone()[0])

    def computations(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM computation").fetchone()[0])

    def close(self) -> None:
        self._db.close()
