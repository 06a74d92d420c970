"""Rung 2, expiry: the lock of a dead process ends by itself.

Below, a lock ends when its holder deletes it. A holder that is killed deletes nothing, and the work that it guards is
never done again, until an operator is woken at night and deletes the key by hand.
"""

from _stage import Stage, climb
from redis import Redis


def without_expiry(url):
    redis = Redis.from_url(url)
    redis.setnx("lock", "taken")
    yield "has the lock (SETNX) and works."
    redis.delete("lock")


def with_expiry(url):
    redis = Redis.from_url(url)
    redis.setnx("lock", "taken")
    redis.pexpire("lock", 300)
    yield "has the lock (SETNX, EXPIRE) and works."
    redis.delete("lock")


def locked_for_ever(stage: Stage, holder) -> bool:
    ann = stage.actor("Ann", holder)
    ann.step()
    ann.kill()
    return not stage.comes_free("lock")


if __name__ == "__main__":
    climb(__doc__, locked_for_ever, below=without_expiry, here=with_expiry)
