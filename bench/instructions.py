"""Instructions per pair of acquire and release, and of the import, counted by cachegrind: a guard against regressions.

    python -m bench.instructions            # prints the counts
    python -m bench.instructions --check    # fails if one is more than 5% above .ci/instructions.json
                                            # (one that is further away than that is counted three times)
    python -m bench.instructions --write    # makes today's counts the ones to compare with

Counts depend on the interpreter's build, not on what else the machine does. Each is the difference between a run of N
and a run of 2 N pairs, so that starting Python cancels out.

How many replies an event loop finds in one read depends on who is faster, client or server, and so do the instructions
of many tasks: counts of one program differed by a fifth. So the tasks run in step. The client reaches the server
through a gate (bench/gate.py) that collects one request of every task, and then hands back all replies at once.

Two threads that open connections at the same time may both expand the scripts, which was worth a fifth too: all scripts
are expanded before the first pair. The garbage collector leaves alone what was there before.

The import is counted with compiled files in place, as users have them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from bench.gate import Gate
from holdtight import embedded

ROOT = Path(__file__).parent.parent
KNOWN = ROOT / ".ci/instructions.json"
MARGIN = 1.05

SYNC = """
import gc
from holdtight import Locks
with Locks(URL, spin=False, connect_timeout=60) as locks:
    from holdtight.stores.redis.script import SCRIPTS
    for script in SCRIPTS:
        script.load()
    with locks.lock("warm"):  # connects
        pass
    gc.freeze()
    gc.collect()
    for number in range(PAIRS):
        with locks.lock(f"order:{number}"):
            pass
"""
ASYNCIO = """
import asyncio, gc, socket
from holdtight import AsyncLocks

async def main():
    async with AsyncLocks(URL, connect_timeout=60) as locks:
        async def run(first):
            for number in range(first, PAIRS, TASKS):
                async with locks.lock(f"order:{NUMBER}"):
                    pass
        from holdtight.stores.redis.script import SCRIPTS
        for script in SCRIPTS:
            script.load()
        async with locks.lock("warm"):  # connects
            pass
        gc.freeze()
        gc.collect()
        with socket.create_connection(GATE) as gate:  # in step until this is closed
            gate.recv(1)
            await asyncio.gather(*map(run, range(TASKS)))

asyncio.run(main())
"""
IMPORT = """
if PAIRS == 2:
    import holdtight
    holdtight.Locks
"""
NEW, SAME = ASYNCIO.replace("NUMBER", "number"), ASYNCIO.replace("NUMBER", "first")
DRILLS = {
    "new name, one thread": (SYNC, 1, 400),
    "new name, one task": (NEW, 1, 400),
    "new name, 64 tasks": (NEW, 64, 1280),
    "same name, 64 tasks": (SAME, 64, 1280),
    "import": (IMPORT, 1, 1),
}


def build() -> str:
    """Names the interpreter's build: other builds need other instructions."""
    flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return f"{platform.python_version()} {platform.machine()} {sha256(flags.encode()).hexdigest()[:8]}"


def count(program: str, server: str, tasks: int, pairs: int) -> int:
    with Gate(urlsplit(server).port or 6379, tasks) as gate:
        return _count(program, gate, tasks, pairs)


def _count(program: str, gate: Gate, tasks: int, pairs: int) -> int:
    text = f"URL, GATE, TASKS, PAIRS = {gate.url!r}, {gate.control!r}, {tasks}, {pairs}\n{program}"
    ran = _run(
        [
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
            sys.executable,
            "-c",
            text,
        ]
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    if ran.returncode or found is None:
        raise SystemExit(f"valgrind: {ran.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every import would compile what it loads
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def measured(names: Iterable[str] = DRILLS) -> dict[str, int]:
    counts: dict[str, int] = {}
    _run([sys.executable, "-c", IMPORT.replace("PAIRS", "2")])  # writes the compiled files
    with embedded.Server() as server:
        for name in names:
            program, tasks, pairs = DRILLS[name]
            once, twice = (count(program, server.url, tasks, times * pairs) for times in (1, 2))
            counts[name] = (twice - once) // pairs
    return counts


def _is_near(now: int, before: int) -> bool:
    return before <= MARGIN * now and now <= MARGIN * before


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not here: instructions are not counted")
        return
    known: dict[str, dict[str, int]] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    before = known.get(build(), {})
    counts = measured()
    for name in [name for name, now in counts.items() if name in before and not _is_near(now, before[name])]:
        # Another program may have made one of its two runs longer: the count may even be negative.
        counts[name] = sorted((counts[name], *(measured((name,))[name] for _ in range(2))))[1]
    for name, now in counts.items():
        compared = f"{now / before[name]:6.3f} of {before[name]}" if name in before else "nothing to compare with"
        print(f"{name:22} {now:8} instructions   {compared}")
    if arguments.write:
        KNOWN.write_text(json.dumps({**known, build(): counts}, indent=2, sort_keys=True) + "\n")
    elif arguments.check and not before:
        print(f"no counts of this build ({build()}) in {KNOWN.relative_to(ROOT)}: python -m bench.instructions --write")
    elif arguments.check:
        worse = [name for name, now in counts.items() if name in before and now > MARGIN * before[name]]
        if worse:
            raise SystemExit(f"more instructions than before: {', '.join(worse)}")


if __name__ == "__main__":
    main()
