"""Rung 7, watchdog: a lock is renewed for as long as its holder lives and works.

Below, the ttl must be guessed. A job that takes longer than the guess loses its lock in the middle of its work, and
another comes in. A ttl that is large enough for every job leaves the lock of a dead process standing as long.
"""

from _stage import Stage, climb

from holdtight import Locks, LockTimeout

TTL = 0.8


def at_work(url, renew):
    with Locks(url).lock("job", ttl=TTL, renew=renew) as lease:
        yield f"has the lock, with a ttl of {TTL} s, and a job that takes longer."
        yield f"is at work. Its lease says: lost is {lease.lost}."


def next_one(url, wait):
    try:
        with Locks(url).lock("job", wait=wait):
            yield "gets the lock."
    except LockTimeout:
        yield f"has waited for {wait} s, and gives up."


def two_at_once(stage: Stage, renew) -> bool:
    ann, bob = stage.actor("Ann", at_work, renew), stage.actor("Bob", next_one, 2 * TTL)
    ann.step()
    if bob.step() == "gets the lock.":
        ann.step()
        return True
    ann.step()
    ann.kill()
    cid = stage.actor("Cid", next_one, 10)
    return cid.step() != "gets the lock."  # a dead holder's ttl is over soon


if __name__ == "__main__":
    climb(__doc__, two_at_once, below=False, here=True)
