"""Leader election: one process polls the bank, the other stands by.

The leader is paused for longer than its key lives, as a machine under load may pause it. The other takes over. The
first one wakes up, does not know, and polls on: two leaders.
"""

from _show import show, tell, wait_for
from redis import Redis

from holdtight import LeaseLost, Locks


def with_a_key(url):
    redis = Redis.from_url(url)
    yield "stands by."
    wait_for(lambda: redis.set("leader", "me", nx=True, px=1_000))
    yield "leads."
    while True:
        redis.pexpire("leader", 1_000)  # keeps the key alive, whoever owns it by now
        yield "polls."


def with_a_leader(url):
    with Locks(url) as locks:
        yield "stands by."
        term = locks.leader("leader", ttl=1).campaign(wait=20)
        yield "leads."
        while True:
            try:
                term.check()
            except LeaseLost:
                yield "knows that its term is over, and stops."
            else:
                yield "polls."


def pause(stage, role):
    first, second = stage.actor("the first", role), stage.actor("the second", role)
    for words in ("stands by.", "leads.", "polls."):
        assert first.step() == words
    second.step()
    first.pause()
    assert second.step() == "leads."
    first.resume()
    both = [first.step(), second.step()]
    tell(f"{both.count('polls.')} of them poll.")
    return both.count("polls.") == 2


if __name__ == "__main__":
    show(__doc__, pause, without=with_a_key, with_it=with_a_leader)
