"""Rung 6, reentrant: the holder may take the lock again, and gives it back as often as it took it.

Below, a function that holds the lock calls another that takes it as well. That one waits for a lock which is given back
only after it has returned: it waits for itself.
"""

import uuid

from _stage import Stage, climb
from redis import Redis

from holdtight import Locks


def plain(url):
    redis = Redis.from_url(url)

    def acquire():
        return redis.set("account", uuid.uuid4().hex, nx=True, px=30_000)

    def transfer():
        acquire()
        yield "has the lock, in transfer()."
        yield from book()

    def book():
        while not acquire():
            yield "calls book(), which is told that somebody has the lock: itself."

    yield from transfer()


def reentrant(url):
    account = Locks(url).lock("account", reentrant=True)

    def transfer():
        with account:
            yield "has the lock, in transfer()."
            yield from book()
            yield "is back in transfer(): book() has given back what it took, and no more."

    def book():
        with account as lease:
            yield f"has it once more, in book(), with the same fence: {lease.fence}."

    yield from transfer()
    yield "has left transfer()."


def passer_by(url):
    account = Locks(url).lock("account")
    while (lease := account.try_acquire()) is None:
        yield "is told that somebody has the lock."
    yield "has the lock."
    lease.release()


def waits_for_itself(stage: Stage, role) -> bool:
    ann, bob = stage.actor("Ann", role), stage.actor("Bob", passer_by)
    ann.step()
    if "itself" in ann.step():
        return True
    ann.step()
    too_early = bob.step() == "has the lock."
    ann.step()
    return too_early or bob.step() != "has the lock."


if __name__ == "__main__":
    climb(__doc__, waits_for_itself, below=plain, here=reentrant)
