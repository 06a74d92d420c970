"""Every way to get a grant. Each takes a client that asks for acks and another one that does not, and returns what
takes the lock, to be called later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from holdtight import Unavailable
from tests.faults.clients import Client, start, waiting
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

__all__ = ["NAME", "SHORT", "WAYS", "taken", "waits"]

SHORT = 1.0
"""Seconds for which a client tries: replicas that do not answer cost as much."""
NAME = "thing"


def waits(server: RunningServer) -> int:
    """How many connections are blocked, by a WAIT."""
    return int(server.info("clients")["blocked_clients"])


def taken(client: Client, name: str = "first") -> bool:
    try:
        client.release(client.acquire(name))
        return True
    except Unavailable:  # a busy machine
        return False


Take: TypeAlias = Callable[[], Any]
Way: TypeAlias = Callable[[Client, Client, RunningServer], Take]


def exclusive(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.acquire(NAME)


def without_waiting(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.try_acquire(NAME)


def reader(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.call(client.locks.rwlock(NAME).read().acquire)


def permits(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.call(client.locks.semaphore(NAME, permits=3).acquire, 2)


def several(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.call(client.locks.multi(NAME, "z").acquire)


def in_a_cohort(client: Client, other: Client, master: RunningServer) -> Take:
    return lambda: client.acquire(NAME, cohort=True)


def handed_over(client: Client, other: Client, master: RunningServer) -> Take:
    held = other.acquire(NAME)

    def take() -> Any:
        waiter = start(lambda: client.acquire(NAME, wait=SHORT + 1))
        wait_for(lambda: waiting(master, NAME) == 1)
        other.release(held)
        return waiter.result(20)

    return take


def adopted(client: Client, other: Client, master: RunningServer) -> Take:
    text = other.call(other.acquire(NAME).detach, 20)  # type: ignore[attr-defined]
    return lambda: client.call(client.locks.adopt, text)


def downgraded(client: Client, other: Client, master: RunningServer) -> Take:
    lease: Any = client.call(client.locks.rwlock(NAME).write().acquire)
    return lambda: client.call(lease.downgrade)


WAYS: list[Way] = [
    exclusive,
    without_waiting,
    reader,
    permits,
    several,
    in_a_cohort,
    handed_over,
    adopted,
    downgraded,
]
