"""A transaction under a guard, and the same with a claim that is written by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from time import perf_counter
from typing import Any

from bench.variants import Variant

CHUNK = 20
CLAIM = (
    "INSERT INTO holdtight_fence AS held (name, fence, claims) VALUES ({0}, {0}, 1) ON CONFLICT (name) DO UPDATE "
    "SET fence = excluded.fence, claims = held.claims + 1 WHERE excluded.fence >= held.fence"
)


def transactions(variant: Variant, *, database: str, folder: str, seconds: float) -> dict[str, list[float]]:
    """Microseconds a transaction, in turns. SQLite does not wait for the disk here."""
    if database == "sqlite":
        shop: Any = sqlite3.connect(f"{folder}/bench.db", isolation_level=None)
        shop.execute("PRAGMA synchronous = OFF")
        return _transactions(variant, shop, "?", "BEGIN IMMEDIATE", seconds)
    import psycopg

    shop = psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True)
    return _transactions(variant, shop, "%s", "BEGIN", seconds)


def _transactions(variant: Variant, shop: Any, mark: str, begin: str, seconds: float) -> dict[str, list[float]]:
    from bench.variants.holdtight import Holdtight
    from holdtight.fencing import SqlGuard

    assert isinstance(variant, Holdtight)
    guard = SqlGuard()
    found: dict[str, list[float]] = {"under": [], "by hand": []}
    claim, update = CLAIM.format(mark), f"UPDATE goods SET units = {mark} WHERE sku = 1"
    with closing(shop), variant.locks.lock("sku:1", ttl=60) as lease:
        shop.execute("DROP TABLE IF EXISTS goods")
        shop.execute("CREATE TABLE goods AS SELECT 1 AS sku, 1000000 AS units")
        guard.create(shop)

        def sell() -> None:
            (units,) = shop.execute("SELECT units FROM goods WHERE sku = 1").fetchone()
            shop.execute(update, (units - 1,))

        def under() -> None:
            with guard.under(lease, shop):
                sell()

        def by_hand() -> None:
            shop.execute(begin)
            try:
                if shop.execute(claim, (lease.name, lease.fence)).rowcount != 1:
                    raise RuntimeError("stale fence")
                sell()
                lease.check()
            except BaseException:
                shop.execute("ROLLBACK")
                raise
            shop.execute("COMMIT")

        until = perf_counter() + seconds
        while perf_counter() < until:
            for name, deed in (("under", under), ("by hand", by_hand)):
                start = perf_counter()
                for _ in range(CHUNK):
                    deed()
                found[name].append((perf_counter() - start) / CHUNK * 1e6)
    return found
