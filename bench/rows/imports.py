"""What `import` costs: fresh processes, by turns, compiled files in place.

Judged by processor time, which other programs on the machine disturb less. Wall-clock time stands beside it."""

from __future__ import annotations

import os
import subprocess

from bench import venvs
from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better
from bench.worker_process import HOME

STATEMENTS = {
    "import.sync": ("holdtight", "import holdtight; holdtight.Locks"),
    "import.async": ("holdtight", "from holdtight import Locks, AsyncLocks"),
    "redis-py": ("redis_py", "import redis"),
    "asyncio alone": ("floor", "import asyncio"),
}
LABELS = {"import.sync": "holdtight", "import.async": "… with AsyncLocks"}


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    pending = dict(STATEMENTS)
    taken: dict[str, list[float]] = {}
    walls: dict[str, list[float]] = {}
    for number in range(bench.effort.imports + 1):
        for key, (variant, statement) in list(pending.items()):
            try:
                took, wall = _time(variant, statement)
            except (subprocess.CalledProcessError, venvs.CannotInstall) as error:
                reason = (
                    error.stderr.strip().splitlines()[-1] if isinstance(error, subprocess.CalledProcessError) else error
                )
                outcome.missing[key] = str(reason)
                del pending[key]
                continue
            if number:  # the first time writes the compiled files
                taken.setdefault(key, []).append(took)
                walls.setdefault(key, []).append(wall)
    for key in ("import.sync", "import.async"):
        if key in taken:
            outcome.figures[key] = median(taken[key])
    for title, found in (("import, processor time", taken), ("import, wall-clock time", walls)):
        bars = tuple(Bar(LABELS.get(key, key), median(times), ours=key in LABELS) for key, times in found.items())
        outcome.charts.append(Chart(title, "ms", Better.LOWER, bars))
        outcome.rounds[title] = {key: [round(each, 2) for each in times] for key, times in found.items()}
    return outcome


def _time(variant: str, statement: str) -> tuple[float, float]:
    """Milliseconds of processor time and of wall-clock time. Starting the interpreter is not ours."""
    code = (
        "from time import perf_counter, process_time; used, start = process_time(), perf_counter(); "
        f"{statement}; print(1000 * (process_time() - used), 1000 * (perf_counter() - start))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(HOME / "src"))),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every import would compile what it loads
    done = subprocess.run(
        [str(venvs.python(variant)), "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    used, wall = map(float, done.stdout.split())
    return used, wall
