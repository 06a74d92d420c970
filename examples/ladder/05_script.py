"""Rung 5, script: checking the owner and deleting the key are one step.

Below, they are two: GET, then DEL. In between the lock can end and go to another process, whose lock is then deleted.
A script runs on the server as a whole: nothing comes in between.
"""

import uuid

from _stage import Stage, climb
from redis import Redis

RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'


def in_two_steps(url):
    redis = Redis.from_url(url, decode_responses=True)
    me = uuid.uuid4().hex
    while not redis.set("lock", me, nx=True, px=30_000):
        yield "is told that somebody has the lock."
    yield "has the lock."
    if redis.get("lock") == me:
        yield "is done. GET says that the lock is still its own."
        redis.delete("lock")
    yield "has sent DEL."


def in_a_script(url):
    redis = Redis.from_url(url, decode_responses=True)
    me = uuid.uuid4().hex
    while not redis.set("lock", me, nx=True, px=30_000):
        yield "is told that somebody has the lock."
    yield "has the lock."
    yield "is done, and about to call the script."
    deleted = redis.eval(RELEASE, 1, "lock", me)
    yield f"has called it: {deleted} deleted."


def two_at_once(stage: Stage, role) -> bool:
    ann, bob, cid = (stage.actor(name, role) for name in ("Ann", "Bob", "Cid"))
    ann.step()
    ann.step()
    stage.let_expire("lock")
    bob.step()
    ann.step()
    return cid.step() == "has the lock."  # while Bob works


if __name__ == "__main__":
    climb(__doc__, two_at_once, below=in_two_steps, here=in_a_script)
