"""What `doctor` finds, for the tests of it."""

from __future__ import annotations

import time

from holdtight import Finding
from holdtight.core.findings import TABLE
from tests.faults.clients import Client
from tests.faults.clocks import Clock, server_time, step
from tests.support.processes import PATIENCE
from tests.support.servers import RunningServer

GOOD = ("--appendonly", "yes")


def findings(client: Client) -> list[Finding]:
    """What `doctor` finds. On a busy machine every server is slow now and then, as `doctor` says: asks again."""
    end = time.monotonic() + PATIENCE
    while True:
        begun = time.monotonic()
        found: list[Finding] = client.call(client.locks.doctor)
        assert time.monotonic() - begun < 6, "3 seconds are promised; this machine may be busy"
        if begun >= end or not any(each.id == "SLOW" for each in found):
            return found


def ids(client: Client) -> list[str]:
    return [each.id for each in findings(client)]


def one(client: Client, id_: str) -> Finding:
    found = [each for each in findings(client) if each.id == id_]
    assert len(found) == 1, findings(client)
    assert found[0].seen
    assert id_ in TABLE
    return found[0]


def is_reached(server: RunningServer, clock: Clock) -> bool:
    before = server_time(server)
    clock.step_to(600)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if server_time(server) > before + 300:
            step(server, clock, 0)
            return True
    return False
