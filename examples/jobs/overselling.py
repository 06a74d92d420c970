"""Overselling: the last unit of a stock must not be sold twice.

Ann sees one unit left under the lock and is paused before she sells it. Her lease ends, and Bob sells that unit. Ann
goes on and sells it again. With a guard, the look at the stock and the order are one transaction under one fence.
"""

import sqlite3
import tempfile
from contextlib import closing

from _pausing import one_is_paused, show

from holdtight import LeaseLost, Locks, StaleFence
from holdtight.fencing import SqlGuard


def sell(url, file, customer):
    """With a lock alone. The check before the write does not help a process that is paused after it."""
    with closing(sqlite3.connect(file)) as shop:
        try:
            with Locks(url, ttl=0.8).lock("sku:1") as lease:
                (left,) = shop.execute("SELECT units FROM stock WHERE sku = 1").fetchone()
                lease.check()
                yield f"holds the lock and sees {left} left."
                if left:
                    shop.execute("UPDATE stock SET units = ? WHERE sku = 1", (left - 1,))
                    shop.execute("INSERT INTO orders VALUES (1, ?)", (customer,))
                    shop.commit()
        except LeaseLost:
            pass  # too late: it is written
        yield "is done."


def sell_guarded(url, file, customer):
    guard = SqlGuard()
    with closing(sqlite3.connect(file)) as shop:
        try:
            with Locks(url, ttl=0.8).lock("sku:1") as lease, guard.under(lease, shop) as tx:
                (left,) = tx.execute("SELECT units FROM stock WHERE sku = 1").fetchone()
                yield f"holds the lock and sees {left} left."
                if left:
                    tx.execute("UPDATE stock SET units = ? WHERE sku = 1", (left - 1,))
                    tx.execute("INSERT INTO orders VALUES (1, ?)", (customer,))
        except (LeaseLost, StaleFence) as error:
            yield f"has sold nothing ({type(error).__name__})."
        else:
            yield "is done."


def more_is_sold_than_there_was(actor, guarded):
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/shop.db")) as shop:
        shop.execute("CREATE TABLE stock AS SELECT 1 AS sku, 1 AS units")
        shop.execute("CREATE TABLE orders (sku INTEGER, customer TEXT)")
        shop.commit()
        SqlGuard().create(shop)
        role = sell_guarded if guarded else sell
        ann, bob = (actor(name, role, f"{folder}/shop.db", name) for name in ("Ann", "Bob"))
        one_is_paused(ann, bob)
        (orders,) = shop.execute("SELECT count(*) FROM orders").fetchone()
    print(f"  One unit, {orders} order{'s' * (orders != 1)}.", flush=True)
    return "" if orders == 1 else f"{orders} orders for one unit."


if __name__ == "__main__":
    show(__doc__, more_is_sold_than_there_was)
