"""Rung 9, fenced: a write of a holder that has lost its lock without noticing is refused.

Below, a process is paused (a suspended machine, a full garbage collection, a stuck disk) between its last look at the
lock and its write. Its watchdog is paused too, the lock goes to the next, and when the first wakes up it writes what
it had in mind. No lock can prevent that. The storage can, if every grant comes with a larger number.
"""

import sqlite3
import tempfile
from contextlib import closing

from _stage import Stage, climb, tell

from holdtight import LeaseLost, Locks


def pay_in(url, file, amount, fenced):
    with closing(sqlite3.connect(file, isolation_level=None)) as bank:
        try:
            with Locks(url, ttl=0.8).lock("account") as lease:
                if fenced:  # the claim comes first: from now on older ones are refused, also before we write
                    bank.execute("UPDATE account SET fence = :f WHERE fence < :f", {"f": lease.fence})
                (balance,) = bank.execute("SELECT balance FROM account").fetchone()
                lease.check()
                yield f"holds the lock, reads {balance}, and is about to write {balance + amount}."
                condition = "WHERE fence = :f" if fenced else ""
                new = {"b": balance + amount, "f": lease.fence}
                written = bank.execute(f"UPDATE account SET balance = :b {condition}", new).rowcount
                yield f"has paid in {amount}." if written else "is refused: a higher fence has been here."
        except LeaseLost:
            yield "learns at the end of the block that the lock was lost."


def a_payment_is_lost(stage: Stage, fenced) -> bool:
    with tempfile.NamedTemporaryFile() as file, closing(sqlite3.connect(file.name, isolation_level=None)) as bank:
        bank.execute("CREATE TABLE account AS SELECT 100 AS balance, 0 AS fence")
        ann = stage.actor("Ann", pay_in, file.name, 10, fenced)
        bob = stage.actor("Bob", pay_in, file.name, 50, fenced)
        ann.step()
        ann.pause()
        bob.step()  # waits until Ann's ttl is over
        due = 100 + 50 * (bob.step() == "has paid in 50.")
        ann.resume()
        due += 10 * (ann.step() == "has paid in 10.")
        ann.step()
        (balance,) = bank.execute("SELECT balance FROM account").fetchone()
    tell(f"There should be {due} in the account, and there are {balance}.")
    return balance != due


if __name__ == "__main__":
    climb(__doc__, a_payment_is_lost, below=False, here=True)
