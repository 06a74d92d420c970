"""Rung 4, unique owner: a lock names its owner, and only the owner gives it back.

Below, the value of the key is the same for all owners. A process that works for longer than its ttl deletes the key
when it is done, although the lock is another process's by then; and a third gets it while the second still works.
"""

import uuid

from _stage import Stage, climb
from redis import Redis


def anonymous(url):
    redis = Redis.from_url(url)
    while not redis.set("lock", "taken", nx=True, px=30_000):
        yield "is told that somebody has the lock."
    yield "has the lock."
    redis.delete("lock")
    yield "is done, and deletes the key."


def with_owner(url):
    redis = Redis.from_url(url, decode_responses=True)
    me = uuid.uuid4().hex
    while not redis.set("lock", me, nx=True, px=30_000):
        yield "is told that somebody has the lock."
    yield "has the lock."
    if redis.get("lock") == me:
        redis.delete("lock")
    yield "is done, and deletes the key if it is still its own."


def two_at_once(stage: Stage, role) -> bool:
    ann, bob, cid = (stage.actor(name, role) for name in ("Ann", "Bob", "Cid"))
    ann.step()
    bob.step()
    stage.let_expire("lock")  # and Ann still works
    bob.step()
    ann.step()
    return cid.step() == "has the lock."  # while Bob works


if __name__ == "__main__":
    climb(__doc__, two_at_once, below=anonymous, here=with_owner)
