"""What `import` costs: fresh processes, by turns, compiled files in place."""

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
    for number in range(bench.effort.imports + 1):
        for key, (variant, statement) in list(pending.items()):
            try:
                took = _time(variant, statement)
            except (subprocess.CalledProcessError, venvs.CannotInstall) as error:
                reason = (
                    error.stderr.strip().splitlines()[-1] if isinstance(error, subprocess.CalledProcessError) else error
                )
                outcome.missing[key] = str(reason)
                del pending[key]
                continue
            if number:  # the first time writes the compiled files
                taken.setdefault(key, []).append(took)
    for key in ("import.sync", "import.async"):
        if key in taken:
            outcome.figures[key] = median(taken[key])
    bars = tuple(Bar(LABELS.get(key, key), median(times), ours=key in LABELS) for key, times in taken.items())
    outcome.charts.append(Chart("import", "ms", Better.LOWER, bars))
    outcome.rounds = {key: [round(each, 2) for each in times] for key, times in taken.items()}
    return outcome


def _time(variant: str, statement: str) -> float:
    """Milliseconds, by the process's own clock: starting the interpreter is not ours."""
    code = f"import time; start = time.perf_counter(); {statement}; print((time.perf_counter() - start) * 1000)"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(HOME / "src"))),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every import would compile what it loads
    done = subprocess.run(
        [str(venvs.python(variant)), "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return float(done.stdout)
