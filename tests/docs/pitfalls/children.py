"""Programs that must be processes: those that are killed, and those that share no memory.

child = start_child(world, "nightly", gates=["run_job"])
child.expect("at run_job"); child.kill()
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from holdtight import Locks, LockTimeout
from tests.docs.pitfalls.world import LIBRARY, World, client
from tests.support.processes import Child, spawn


def start_child(world: World, function: str, *, gates: tuple[str, ...] = (), dies_before: str = "") -> Child:
    """It says "at …" where a gate is and goes on with the next line it hears; then "done", or "refused".

    `dies_before` is a command: the process kills itself with SIGKILL rather than send it.
    """
    arguments = json.dumps([world.server.url, world.block, function, gates, dies_before])
    child: Child = world.keep(spawn(_run, arguments))
    return child


def _run(arguments: str) -> None:
    url, block, function, gates, dies_before = json.loads(arguments)
    redis = client(url, **{dies_before: lambda: os.kill(os.getpid(), signal.SIGKILL)})
    with Locks(url, wait=0) as locks:
        names: dict[str, Any] = {**LIBRARY, "redis": redis, "locks": locks}
        for gate in gates:
            _put(names, gate)
        exec(compile(block, "docs/pitfalls.md", "exec"), names)
        try:
            names[function]()
        except LockTimeout:
            print("refused", flush=True)
        else:
            print("done", flush=True)


def _put(names: dict[str, Any], gate: str) -> None:
    """`shop.read_stock` is a function of an object `shop`."""

    def halt(*args: object) -> int:
        print(f"at {gate}", flush=True)
        return int(sys.stdin.readline() or 0)

    owner, _, name = gate.rpartition(".")
    if owner:
        names.setdefault(owner, type(owner, (), {}))
        setattr(names[owner], name, staticmethod(halt))
    else:
        names[name] = halt
