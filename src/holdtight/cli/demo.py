"""`holdtight demo`: four processes count together, without a lock and with one."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from holdtight.cli.options import common, of

__all__ = ["demo"]

PROCESSES, ROUNDS = 4, 250
_WORKER = """
import json, os, sys, time
from contextlib import nullcontext
from pathlib import Path
from holdtight import Locks
file, rounds, with_lock = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1"
with Locks(**json.loads(os.environ["HOLDTIGHT_DEMO_CLIENT"])) as locks:
    for _ in range(rounds):
        with locks.lock("demo:counter", ttl=10) if with_lock else nullcontext():
            count = int(file.read_text())
            time.sleep(0.0005)  # somebody else may read the same number now
            new = file.with_name(f"{file.name}.{id(locks)}.{sys.argv[4]}")
            new.write_text(str(count + 1))
            new.replace(file)
"""


@click.command(epilog="\b\nExamples:\n  holdtight demo\n  holdtight demo --url redis://localhost:6379/0")
@common
@click.pass_context
def demo(context: click.Context, /) -> int:
    """Let four processes count to 1,000 together: without a lock, then with one.

    Without a URL it brings its own server (extra `embedded`).
    """
    settings = of(context)
    settings.urls = settings.urls or [os.environ.get("REDIS_URL") or "embedded://"]
    settings.locks().close()  # what is wrong with the options is said once, and here
    with tempfile.TemporaryDirectory(prefix="holdtight-demo-") as folder:
        lost = 0
        for title, with_lock in (("without a lock", False), ("with holdtight", True)):
            file = Path(folder) / title.replace(" ", "-")
            file.write_text("0")
            begun = time.monotonic()
            if not _count(settings.arguments, file, with_lock=with_lock):
                return 1
            counted, wanted = int(file.read_text()), PROCESSES * ROUNDS
            lost = wanted - counted
            took = time.monotonic() - begun
            click.echo(f"{title + ':':<16} {wanted:,} counted, {counted:,} there, {lost:,} lost ({took:.1f} s)")
    return 1 if lost else 0


def _count(client: dict[str, Any], file: Path, *, with_lock: bool) -> bool:
    arguments = [str(file), str(ROUNDS), str(int(with_lock))]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        "HOLDTIGHT_DEMO_CLIENT": json.dumps(client),  # no argument: `ps` would show its password
    }
    team = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, *arguments, str(number)],
            env=env,
        )
        for number in range(PROCESSES)
    ]
    codes = [member.wait() for member in team]
    return not any(codes)
