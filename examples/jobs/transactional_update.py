"""Transactional update: a payment must not disappear because a process was paused.

Ann reads the balance under the lock and is paused before she writes. Her lease ends, Bob takes the lock and pays in.
Ann goes on and writes what she had in mind. `guard.under` makes the read and the write one transaction that has claimed
the fence of the lease: an older fence is refused, and a lease that has ended does not commit.
"""

import sqlite3
import tempfile
from contextlib import closing

from _pausing import one_is_paused, show

from holdtight import LeaseLost, Locks, StaleFence
from holdtight.fencing import SqlGuard

PAID = "has paid in."


def pay_in(url, file, amount):
    """With a lock alone."""
    with closing(sqlite3.connect(file)) as bank:
        try:
            with Locks(url, ttl=0.8).lock("account"):
                (balance,) = bank.execute("SELECT balance FROM account").fetchone()
                yield f"holds the lock, reads {balance}, and is about to write {balance + amount}."
                bank.execute("UPDATE account SET balance = ?", (balance + amount,))
                bank.commit()
        except LeaseLost:
            pass  # too late: it is written
        yield PAID


def pay_in_guarded(url, file, amount):
    guard = SqlGuard()
    with closing(sqlite3.connect(file)) as bank:
        try:
            with Locks(url, ttl=0.8).lock("account") as lease, guard.under(lease, bank) as tx:
                (balance,) = tx.execute("SELECT balance FROM account").fetchone()
                yield f"holds the lock, reads {balance}, and is about to write {balance + amount}."
                tx.execute("UPDATE account SET balance = ?", (balance + amount,))
        except (LeaseLost, StaleFence) as error:
            yield f"has written nothing ({type(error).__name__})."
        else:
            yield PAID


def a_payment_is_lost(actor, guarded):
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/bank.db")) as bank:
        bank.execute("CREATE TABLE account AS SELECT 100 AS balance")
        bank.commit()
        SqlGuard().create(bank)
        role = pay_in_guarded if guarded else pay_in
        ann, bob = (actor(name, role, f"{folder}/bank.db", amount) for name, amount in (("Ann", 10), ("Bob", 50)))
        ends = one_is_paused(ann, bob)
        due = 100 + sum(amount for amount, end in zip((10, 50), ends, strict=True) if end == PAID)
        (balance,) = bank.execute("SELECT balance FROM account").fetchone()
    return "" if balance == due else f"There should be {due} in the account, and there are {balance}."


if __name__ == "__main__":
    show(__doc__, a_payment_is_lost)
