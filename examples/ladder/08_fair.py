"""Rung 8, fair: first come, first served.

Below, a process that finds the lock taken asks again after a pause. A newcomer that happens to ask just after a release
gets the lock before those that have waited for long, as often as it happens. Here there is a line on the server: a
release hands the lock to the first in it.
"""

from _stage import Stage, climb, tell, wait_for

from holdtight import Locks


def by_polling(url):
    lock = Locks(url).lock("printer")
    while (lease := lock.try_acquire()) is None:
        yield "looks: taken. Sleeps for a while, to look again."
    yield "gets the lock."
    lease.release()
    yield "has given it back."


def in_line(url):
    with Locks(url).lock("printer"):
        yield "gets the lock."
    yield "has given it back."


def overtaken(stage: Stage, role) -> bool:
    ann, bob, cid = (stage.actor(name, role) for name in ("Ann", "Bob", "Cid"))
    ann.step()
    asks_and_waits(stage, bob)
    ann.step()
    return not asks_and_waits(stage, cid) or bob.answer() != "gets the lock."


def asks_and_waits(stage: Stage, actor) -> bool:
    """False if the actor gets the lock; else it was refused, or stands in the line."""
    with Locks(stage.url) as locks:
        actor.begin()
        wait_for(lambda: actor.answered() or actor.pid in (each.pid for each in locks.inspect("printer").waiters))
    if actor.answered():
        return actor.answer() != "gets the lock."
    tell(f"{actor.name} waits in the line.")
    return True


if __name__ == "__main__":
    climb(__doc__, overtaken, below=by_polling, here=in_line)
