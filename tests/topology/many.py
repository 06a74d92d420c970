"""Ten thousand leases, which must all be renewed at once when their server was replaced."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from holdtight import AsyncLocks
from tests.faults.clients import Client
from tests.support.busy import Delay

__all__ = ["all_renewed", "give_back", "take_many"]

COUNT = 10_000
LEASES_IN_A_TURN = 500
LIMIT = 1.0
"""Seconds that the contract allows."""


def take_many(client: Client, prefix: str = "many") -> list[Any]:
    locks: Any = client.locks
    names = [f"{prefix}:{number}" for number in range(COUNT)]
    if not isinstance(locks, AsyncLocks):
        return [locks.lock(name).acquire() for name in names]

    async def take() -> list[Any]:
        found: list[Any] = []
        for at in range(0, COUNT, LEASES_IN_A_TURN):
            found += await asyncio.gather(*[locks.lock(name).acquire() for name in names[at : at + LEASES_IN_A_TURN]])
        return found

    found: list[Any] = client.call(take)
    return found


def give_back(client: Client, leases: list[Any]) -> None:
    if not isinstance(client.locks, AsyncLocks):
        for lease in leases:
            lease.release()
        return

    async def release() -> None:
        for at in range(0, len(leases), LEASES_IN_A_TURN):
            await asyncio.gather(*[lease.release() for lease in leases[at : at + LEASES_IN_A_TURN]])

    client.call(release)


def all_renewed(leases: list[Any], deadlines: list[float], since: float, *pids: int) -> None:
    """`deadlines` are those before."""
    delay = Delay(os.getpid(), *pids)

    def renewed() -> bool:
        return all(lease.tenure.deadline > before for lease, before in zip(leases, deadlines, strict=True))

    took = delay.check(renewed, since, within=LIMIT, what=f"{len(leases)} renewals")
    print(f"{len(leases)} leases renewed after {took:.2f} s; the machine was busy for {delay.seconds():.2f} s")
    assert not [lease for lease in leases if lease.lost]
