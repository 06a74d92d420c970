"""API quota: a provider answers two calls at a time, and refuses every further one (429).

Four services share the account. Each keeps to the quota with a semaphore of its own, and together they call four
times at once. A semaphore on the server counts them all; a service that is killed in the middle of a call gives its
permit back when its ttl is over.
"""

import threading

from _show import show, tell, wait_for
from redis import Redis

from holdtight import Locks

QUOTA, SERVICES = 2, 4


def call(redis):
    """The provider: it counts the calls that are under way."""
    if redis.incr("calls") <= QUOTA:
        yield "is answered (200)."
    else:
        yield "is refused (429)."
    redis.decr("calls")


def with_semaphores_of_their_own(url):
    permits = threading.Semaphore(QUOTA)
    yield "is ready."
    with permits:
        yield from call(Redis.from_url(url))
    yield "is done."


def with_one_semaphore(url):
    with Locks(url) as locks:
        yield "is ready."
        with locks.semaphore("provider", permits=QUOTA, ttl=1):
            yield from call(Redis.from_url(url))
        yield "is done."


def rush(stage, role):
    services = [stage.actor(f"service {number}", role) for number in range(1, SERVICES + 1)]
    for each in services:
        each.step()
    with Locks(stage.url) as locks:

        def arrived():
            """How many have their answer or wait for a permit."""
            return sum(each.answered() for each in services) + locks.inspect("provider").waiting

        for number, each in enumerate(services, 1):
            each.begin()
            wait_for(lambda number=number: arrived() == number)
    calling = [each for each in services if each.answered()]
    waiting = [each for each in services if each not in calling]
    answers = [each.answer() for each in calling]
    for each in waiting:
        each.tell("waits for a permit.")
    if waiting:
        first, second = calling
        first.step()
        answers.append(waiting[0].answer())
        second.kill()
        stage.redis.decr("calls")  # the provider notices that the connection is gone
        answers.append(waiting[1].answer())
    refused = sum("429" in answer for answer in answers)
    tell(f"{refused} of {len(answers)} calls were refused.")
    return refused > 0


if __name__ == "__main__":
    show(__doc__, rush, without=with_semaphores_of_their_own, with_it=with_one_semaphore)
