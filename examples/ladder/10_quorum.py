"""Rung 10, quorum: a lock that a majority of independent servers holds, not one.

Below, one server knows who holds the lock. It crashes and comes back empty, under a holder that lives and works, and
gives the lock to the next. (The holder learns it with its next renewal, the fence keeps the data right: but two were
at work.) Of five servers that know nothing of each other, three must agree, and a server that has just come back has
no vote until everything it may have forgotten is over.
"""

import sys

from _stage import Stage, climb, tell

from holdtight import Locks, NotSupported


def at_work(_, servers):
    with Locks(servers).lock("job") as lease:
        yield "has the lock, and works."
        yield f"still works. Its lease says: lost is {lease.lost}."


def passer_by(_, servers):
    lease = Locks(servers).lock("job").try_acquire()
    yield "has the lock." if lease else "is refused."


def two_at_once(stage: Stage, servers) -> bool:
    urls = stage.urls[:servers]
    if servers > 1:
        with Locks(urls) as locks:
            locks.bless()  # these are new, and have forgotten nothing: the operator's word for it
    target = urls if servers > 1 else urls[0]
    ann, bob = stage.actor("Ann", at_work, target), stage.actor("Bob", passer_by, target)
    ann.step()
    stage.servers[0].restart()
    tell(f"The {'server' if servers == 1 else 'first server'} crashes and comes back, empty.")
    came_in = bob.step() == "has the lock."
    ann.step()
    return came_in


if __name__ == "__main__":
    try:
        climb(__doc__, two_at_once, below=1, here=5, servers=5)
    except NotSupported as refusal:
        # To be removed when quorums are built: then the scene above plays to its end, and says so by itself.
        tell(f"holdtight refuses: {refusal}.")
        sys.exit(3)
