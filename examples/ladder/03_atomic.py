"""Rung 3, atomic: the lock and its expiry in one command.

Below, SETNX and EXPIRE are two commands, and a process can die between them: then the lock stays for ever after all.
"""

from _stage import Stage, climb
from redis import Redis


def in_two_commands(url):
    redis = Redis.from_url(url)
    redis.setnx("lock", "taken")
    yield "has sent SETNX, and not yet EXPIRE."
    redis.pexpire("lock", 300)


def in_one_command(url):
    redis = Redis.from_url(url)
    redis.set("lock", "taken", nx=True, px=300)
    yield "has sent SET NX PX, and nothing else."


def locked_for_ever(stage: Stage, holder) -> bool:
    ann = stage.actor("Ann", holder)
    ann.step()
    ann.kill()
    return not stage.comes_free("lock")


if __name__ == "__main__":
    climb(__doc__, locked_for_ever, below=in_two_commands, here=in_one_command)
