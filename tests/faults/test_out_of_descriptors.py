"""A process without free descriptors can release, renew, lose and withdraw: none of these opens a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdtight import Locks
from tests.faults.quorum import StartNodes
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer

HELD = "held by another"

CHILD = """
import json
from holdtight import AsyncLocks, LockError, Locks
from tests.support import starving

targets = json.loads(args[0])

def starve():
    starving.starve()
    say("starved")

def came(error):
    say("done" if error is None else type(error).__name__ if isinstance(error, LockError) else repr(error))

def blocking():
    with Locks(targets, ttl=3, deadlock_after=0.1) as locks:
        error = None
        try:
ACT
        except BaseException as raised:
            error = raised
        came(error)

async def asynchronous():
    async with AsyncLocks(targets, ttl=3, deadlock_after=0.1) as locks:
        error = None
        try:
ASYNC_ACT
        except BaseException as raised:
            error = raised
        came(error)

if args[1] == "blocking":
    blocking()
else:
    import asyncio
    asyncio.run(asynchronous())
"""

TAKEN = "lease = AWAIT locks.lock('mine').acquire()\nstarve()\n"
RENEWED = "before = lease.tenure.deadline\nwhile lease.tenure.deadline == before:\n    AWAIT sleep(0.01)\n"
KEPT = "lease = AWAIT locks.lock('mine').acquire()\n" + RENEWED + "starve()\n"
"""By now the keeper has its connection."""
ACTS: dict[str, tuple[str, str]] = {
    "release": (TAKEN + "AWAIT lease.release()", "done"),
    "leave a block": ("ASYNC with locks.lock('mine'):\n    starve()", "done"),
    "renew": (KEPT + "AWAIT lease.renew(5)\nAWAIT lease.release()", "done"),
    "be renewed": (KEPT + RENEWED + "lease.check()\nAWAIT lease.release()", "done"),
    "lose": (TAKEN + "say('lose it')\nAWAIT lease.wait_lost(20)\nlease.check()", "LeaseLost"),
    "release what is lost": (TAKEN + "say('lose it')\nAWAIT lease.wait_lost(20)\nAWAIT lease.release()", "NotOwner"),
    "release what is not known to be lost": (
        "lease = AWAIT locks.lock('mine', renew=False).acquire()\nstarve()\nsay('lose it')\nhear()\n"
        "AWAIT lease.release()",
        "NotOwner",
    ),
    "withdraw": (TAKEN + f"AWAIT locks.lock('{HELD}').acquire(wait=0.3)", "LockTimeout"),
    "withdraw from inside a block": (
        f"ASYNC with locks.lock('mine'):\n    starve()\n    AWAIT locks.lock('{HELD}').acquire(wait=0.5)",
        "LockTimeout",
    ),
    "release though the server is gone": (TAKEN + "say('stop')\nhear()\nAWAIT lease.release()", "Unavailable"),
}
ONE_SERVER: dict[str, tuple[str, str]] = {
    "detach": (KEPT + "AWAIT lease.detach()", "done"),
    "downgrade": (
        "lease = AWAIT locks.rwlock('mine').write().acquire()\nstarve()\nlease = AWAIT lease.downgrade()\n"
        "AWAIT lease.release()",
        "done",
    ),
    "release several": ("lease = AWAIT locks.multi('mine', 'more').acquire()\nstarve()\nAWAIT lease.release()", "done"),
    "release a permit": (
        "lease = AWAIT locks.semaphore('mine', permits=2).acquire()\nstarve()\nAWAIT lease.release()",
        "done",
    ),
}


def program(act: str) -> str:
    plain = act.replace("AWAIT sleep", "time.sleep").replace("AWAIT ", "").replace("ASYNC ", "")
    coloured = act.replace("AWAIT sleep", "await asyncio.sleep").replace("AWAIT ", "await ").replace("ASYNC ", "async ")
    code = CHILD.replace("ASYNC_ACT", _indented(coloured)).replace("ACT", _indented(plain))
    return code.replace("import json", "import time, json")


def _indented(text: str) -> str:
    return "\n".join(" " * 12 + line for line in text.splitlines())


def play(start_child: StartChild, servers: list[RunningServer], target: Any, act: str, colour: str) -> str:
    with Locks(target) as locks, locks.lock(HELD):
        child = start_child(program(act), json.dumps(target), colour)
        child.expect("starved")
        while (line := child.wait_line(30)) in ("lose it", "stop"):
            for server in servers:
                if line == "stop":
                    server.stop()
                else:
                    server.command("DEL", "ht:{mine}")
            child.send("go on")
        if "stop" not in act:
            wait_for(lambda: not locks.inspect(HELD).waiting)
        return line


COLOURS = pytest.mark.parametrize("colour", ["blocking", pytest.param("asyncio", marks=pytest.mark.long)])


@COLOURS
@pytest.mark.parametrize("act", [*ACTS, *ONE_SERVER])
def test_on_one_server(start_child: StartChild, private_server: RunningServer, act: str, colour: str) -> None:
    code, expected = (ACTS | ONE_SERVER)[act]
    assert play(start_child, [private_server], private_server.url, code, colour) == expected


@COLOURS
@pytest.mark.parametrize("act", [each for each in ACTS if "server is gone" not in each])
def test_on_a_quorum(start_child: StartChild, start_nodes: StartNodes, act: str, colour: str) -> None:
    nodes = start_nodes(3)
    code, expected = ACTS[act]
    assert play(start_child, nodes.servers, nodes.urls, code, colour) == expected
