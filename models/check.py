"""Checks the models with Spin: `python -m models.check [--quick] [--list] [NAME…]`, which is `make models`.

Compiles every run of `runs.py` into a checker of its own and runs it. A run that must hold is searched to the end. A
run that must fail is searched breadth first, so that its counter-example is as short as possible, and the steps of the
counter-example are printed. `build/` beside this file keeps the checkers and the traces.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from models.runs import RUNS, Expected, Run

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
MEGABYTES = 1500  # for one run; two go on at a time
DEPTH = 200_000

# The last line that a model prints before the assertion that fails.
WRONG = "WRONG: "
BROKEN = {
    "quorum": f"{WRONG}two leases are believed valid at the same time",
    "fence": f"{WRONG}the fence has not risen",
}

# Both kinds: only assertions count, every step is taken (no reduction that would need trust of its own).
CHECKER = ("gcc", "-w", "-DSAFETY", "-DNOREDUCE", "-DNOBOUNDCHECK", f"-DMEMLIM={MEGABYTES}")


class ModelError(Exception):
    """The models could not be checked: a tool is missing, or broke off."""


@dataclass(frozen=True)
class Outcome:
    run: Run
    violated: bool
    states: int
    depth: int
    seconds: float
    megabytes: float
    unreached: frozenset[str]  # steps of the model that never came up, as file:line
    trace: tuple[str, ...]

    @property
    def trouble(self) -> str | None:
        """The failures of a run, in words."""
        if self.run.expected is Expected.HOLDS:
            return "is violated" if self.violated else None
        if not self.violated:
            return "was not found to go wrong"
        # A reach-… run ends at an assertion of its own, where nothing is wrong.
        reached = self.run.expected is Expected.REACHED
        as_meant = WRONG not in self.trace[-1] if reached else self.trace[-1] == BROKEN[self.run.model]
        return None if as_meant else f"stopped for another reason than it should: {self.trace[-1]}"


def missing_tools() -> str | None:
    """The missing tools, in words; None if all are there."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if not missing:
        return None
    return (
        f"checking the models needs {' and '.join(missing)}, which pip cannot bring: install the packages spin, gcc "
        "and libc6-dev (Debian, Ubuntu), or Spin from its authors and any gcc"
    )


def _call(*command: str, folder: Path) -> str:
    # Lowest priority: in `make test`, other tests have short leases.
    done = subprocess.run(
        ["nice", "-n", "19", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ModelError(f"{' '.join(command)} in {folder} ended with {done.returncode}:\n{done.stdout.strip()}")
    return done.stdout


def _number(pattern: str, report: str) -> float:
    found = re.search(pattern, report, re.MULTILINE)
    if found is None:
        raise ModelError(f"the checker's report has no {pattern!r}:\n{report}")
    return float(found[1])


def check(run: Run, build: Path) -> Outcome:
    """Builds and runs one checker, in a folder of its own below `build`."""
    folder = build / run.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in HERE.glob("*.pml"):
        shutil.copy(source, folder)
    model = f"{run.model}.pml"
    searched = run.expected is Expected.HOLDS
    switches = [f"-D{switch}" for switch in run.switches.split()] + ["-DSORTED"] * searched
    started = time.monotonic()
    _call("spin", "-a", *switches, model, folder=folder)
    _call(*CHECKER, *(("-O2",) if searched else ("-O1", "-DBFS")), "-o", "pan", "pan.c", folder=folder)
    report = _call("./pan", "-E", f"-m{DEPTH}", "-w23" if searched else "-w20", folder=folder)
    seconds = time.monotonic() - started
    (folder / "report.txt").write_text(report)
    violated = _number(r"errors: (\d+)", report) > 0
    if violated and "assertion violated" not in report:
        raise ModelError(f"{run.name}: the checker stopped at something that is no assertion:\n{report}")
    if not violated and ("Search not completed" in report or "max search depth" in report):
        raise ModelError(f"{run.name}: the search was not completed:\n{report}")
    trace: tuple[str, ...] = ()
    if violated:
        trace = _trace(_call("spin", "-t", "-T", *switches, model, folder=folder))
        story = [f"{run.name}: {run.what}", *(f"{number:3}. {step}" for number, step in enumerate(trace, 1))]
        (build / f"{run.name}.txt").write_text("\n".join(story) + "\n")
    return Outcome(
        run,
        violated,
        states=int(_number(r"^\s*([\d.e+]+) states, stored", report)),
        depth=int(_number(r"depth reached (\d+)", report)),
        seconds=seconds,
        megabytes=_number(r"([\d.]+)\s+total actual memory usage", report),
        unreached=frozenset(re.findall(r'^\s+(\S+\.pml:\d+), state \d+, "(?!-end-)', report, re.MULTILINE)),
        trace=trace,
    )


def _trace(replay: str) -> tuple[str, ...]:
    """The steps in words, as the models print them; what Spin adds comes after its own name."""
    return tuple(line.strip() for line in replay.partition("\nspin: ")[0].splitlines() if line.strip())


def _tell(outcome: Outcome) -> None:
    run = outcome.run
    print(f"{run.expected.value:8}{run.name:31}{run.what}")
    figures = f"{outcome.states:,} states, depth {outcome.depth:,}, {outcome.seconds:.1f} s"
    print(f"{'':8}{figures}, {outcome.megabytes:,.0f} MB   [{run.switches}]")
    if run.expected is not Expected.HOLDS:
        for number, step in enumerate(outcome.trace, 1):
            print(f"{'':10}{number:3}. {step}")
    if outcome.trouble is not None:
        print(f"{'':8}NOT AS EXPECTED: {outcome.trouble}")
    print(flush=True)


def _chosen(names: Sequence[str], quick: bool) -> list[Run]:
    known = {run.name for run in RUNS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ModelError(f"no run is called {', '.join(unknown)}; --list names them all")
    return [run for run in RUNS if (run.name in names or not names) and (run.quick or not quick)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m models.check", description="Checks the models with Spin.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these runs")
    parser.add_argument("--quick", action="store_true", help="only the runs that take seconds")
    parser.add_argument("--list", action="store_true", help="name the runs and do nothing")
    options = parser.parse_args(arguments)
    try:
        runs = _chosen(options.names, options.quick)
        if options.list:
            for run in runs:
                print(f"{run.expected.value:8}{run.name:31}{run.what}")
            return 0
        wanting = missing_tools()
        if wanting is not None:
            raise ModelError(wanting)
        return _check_all(runs, entire=not options.names and not options.quick)
    except ModelError as error:
        print(f"models: {error}", file=sys.stderr)
        return 2


def _check_all(runs: Sequence[Run], *, entire: bool) -> int:
    started = time.monotonic()
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        try:
            for done in as_completed([pool.submit(check, run, BUILD) for run in runs]):
                outcomes.append(done.result())
                _tell(outcomes[-1])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    holding = [outcome for outcome in outcomes if outcome.run.expected is Expected.HOLDS]
    wrong = sum(outcome.trouble is not None for outcome in outcomes)
    if entire:
        # A model could also hold because nothing happens in it.
        for model in sorted({outcome.run.model for outcome in holding}):
            idle = frozenset.intersection(*(each.unreached for each in holding if each.run.model == model))
            if idle:
                wrong += 1
                print(f"NOT AS EXPECTED: no run that must hold ever takes these steps: {', '.join(sorted(idle))}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(
        f"{len(holding)} runs that must hold, {len(outcomes) - len(holding)} that must go wrong or get somewhere; "
        f"{time.monotonic() - started:.0f} s, the largest took {peak:,} MB. Traces are in {os.path.relpath(BUILD)}"
    )
    print(f"FAILED: {wrong} not as expected" if wrong else "PASSED: all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
