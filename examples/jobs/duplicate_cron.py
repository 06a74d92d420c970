"""Duplicate cron: four hosts start the nightly job, each by its own clock.

A lock keeps them apart only while they overlap. The job is short, the clocks are a moment apart: the first host is done
when the second comes, and the customers are billed four times.
"""

from _show import show, tell

from holdtight import Locks

HOSTS = 4


def with_a_lock(url):
    with Locks(url) as locks:
        yield "is ready."
        lease = locks.lock("nightly").try_acquire()
        if lease is None:
            yield "finds the lock held, and leaves it."
        else:
            lease.release()  # the job takes a moment only
            yield "bills the customers."


def with_once(url):
    with Locks(url) as locks:

        @locks.once("nightly", at_least="23h")
        def bill():
            return "bills the customers."

        yield "is ready."
        done = bill()
        yield done or f"is told that it has been started: {done.why}."


def night(stage, role):
    hosts = [stage.actor(f"host {number}", role) for number in range(1, HOSTS + 1)]
    for host in hosts:
        host.step()
    billed = sum("bills" in host.step() for host in hosts)
    tell(f"The customers were billed {billed} times.")
    return billed != 1


if __name__ == "__main__":
    show(__doc__, night, without=with_a_lock, with_it=with_once)
