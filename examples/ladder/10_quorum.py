"""Rung 10, quorum: a lock that a majority of independent servers holds, not one.

Below, only one server knows the holder. It crashes and comes back empty, under a holder that lives and works, and
gives the lock to the next. (The holder learns it with its next renewal, the fence keeps the data right: but two were
at work.) Of five servers that know nothing of each other, three must agree, and a server that has just come back has
no vote until everything it may have forgotten is over.
"""

from _stage import Stage, climb, tell

from holdtight import Locks


def at_work(_, target):
    with Locks(target).lock("job") as lease:
        yield "has the lock, and works."
        yield f"still works. Its lease says: lost is {lease.lost}."


def passer_by(_, target):
    lease = Locks(target).lock("job").try_acquire()
    yield "has the lock." if lease else "is refused."


def two_at_once(stage: Stage, quorum) -> bool:
    target = stage.urls if quorum else stage.url
    if quorum:
        with Locks(target) as locks:
            locks.bless()  # the operator vouches that these servers are new and have forgotten nothing
    ann, bob = stage.actor("Ann", at_work, target), stage.actor("Bob", passer_by, target)
    ann.step()
    stage.servers[0].restart()
    tell("A server crashes and comes back, empty.")
    came_in = bob.step() == "has the lock."
    ann.step()
    return came_in


if __name__ == "__main__":
    climb(__doc__, two_at_once, below=False, here=True, servers=(1, 5))
