"""Looking and acting from outside: list, doctor, release by force, and the command line as processes.

These have no peers: the figures stand by themselves.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.results import Outcome
from bench.rounds import Bench
from bench.stats import median, percentile
from bench.worker_process import HOME, Worker, WorkerFailed

SECONDS_OF_TOP = 8.0
FOREIGN = 100_000
"""Foreign keys of one request that fills the database."""
FILL = "for i = 1, tonumber(ARGV[2]) do redis.call('SET', 'foreign:' .. (ARGV[1] + i), 'x') end return 1"


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    try:
        with bench.enlist(("holdtight",), cpu=bench.across_cores(), each=2) as by_variant:
            if not by_variant:
                raise WorkerFailed(bench.why_absent("holdtight"))
            mine, other = by_variant["holdtight"]
            _library(bench, outcome, mine, other)
    except WorkerFailed as error:
        outcome.notes.append(f"operations: {error}")
    _commands(bench, outcome)
    return outcome


def _library(bench: Bench, outcome: Outcome, mine: Worker, other: Worker) -> None:
    figures, effort = outcome.figures, bench.effort
    forced = mine.do("operations.forced", times=effort.wakeups)
    figures["operations.forced"] = percentile(forced, 0.99)
    outcome.rounds["forced ms"] = {"median": median(forced), "p99": figures["operations.forced"]}
    for locks in (10_000, effort.memory_locks):
        bench.server.clear()
        mine.do("free.hold", count=locks, ttl=600)
        if f"operations.list.{locks}" in figures:
            continue
        looked = [mine.do("operations.listing", expected=locks) for _ in range(max(1, effort.rounds // 2))]
        figures[f"operations.list.{locks}"] = median([each["seconds"] for each in looked])
        outcome.rounds[f"list of {locks}"] = looked
        if locks == 10_000:
            figures["operations.doctor"] = median([mine.do("operations.doctor") for _ in looked])
            quiet = other.do("operations.pairs", seconds=effort.seconds)
            other.send("operations.pairs", seconds=effort.seconds)
            mine.do("operations.listing", expected=locks)
            figures["operations.others"] = other.receive() - quiet
        else:
            figures["operations.megabytes"] = max(each["megabytes"] for each in looked)
    if effort.memory_locks <= 10_000:
        outcome.notes.append("operations: the list of 100,000 locks and the foreign keys are left out (--quick)")
        return
    bench.server.clear()
    mine.do("free.hold", count=10_000, ttl=600)
    for start in range(0, 1_000_000, FOREIGN):
        bench.server.connection.ask("EVAL", FILL, 0, start, FOREIGN)
    among = mine.do("operations.listing", expected=10_000)["seconds"]
    figures["operations.foreign"] = among - figures["operations.list.10000"]
    bench.server.clear()


def _commands(bench: Bench, outcome: Outcome) -> None:
    """Each command is a process of its own, as its user starts it."""
    figures, times = outcome.figures, bench.effort.imports
    url = bench.server.url
    _timed("run", "warm-up", "--url", url, "--", "true")  # writes the compiled files
    took, sizes = zip(*(_timed("run", "x", "--url", url, "--", "true") for _ in range(times)), strict=True)
    figures["operations.run"] = median(took) * 1000
    figures["operations.run.memory"] = max(sizes)
    outcome.rounds["run ms"] = [round(each * 1000, 1) for each in took]
    figures["operations.guardian"] = _guardian(url)
    with Worker("holdtight", url) as holder:
        bench.server.clear()
        holder.do("free.hold", count=10_000, ttl=600)
        figures["operations.ls"] = median([_timed("ls", "--json", "--url", url)[0] for _ in range(3)])
        bench.server.clear()
        holder.do("free.hold", count=1_000, ttl=600)
        there = _server_seconds(bench)
        start = time.perf_counter()
        figures["operations.top"] = _top(url)
        took_top = time.perf_counter() - start
        figures["operations.top.server"] = 100 * (_server_seconds(bench) - there) / took_top


def _environment() -> dict[str, str]:
    paths = (os.environ.get("PYTHONPATH", ""), str(HOME / "src"))
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "TERM": "xterm"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # or every command would compile what it loads
    return found


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdtight", *words]


def _timed(*words: str) -> tuple[float, float]:
    """Seconds, and the most megabytes that the process had."""
    start = time.perf_counter()
    process = subprocess.Popen(
        _command(*words), env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"holdtight {words[0]} ended with {process.returncode}")
    return took, used.ru_maxrss / 1024


def _guardian(url: str) -> float:
    """Megabytes of the process that ends the command when `run` cannot."""
    process = subprocess.Popen(_command("run", "x", "--url", url, "--", "sleep", "2"), env=_environment())
    found = 0.0
    while process.poll() is None:
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if f"\nPPid:\t{process.pid}\n" not in (status := (each / "status").read_text()):
                    continue
                if b"guardian.py" in (each / "cmdline").read_bytes():
                    found = max(found, int(status.split("VmHWM:")[1].split()[0]) / 1024)
            except (OSError, IndexError):
                continue
        time.sleep(0.1)
    return found


def _top(url: str) -> float:
    """The share of a core that `top` takes, in percent, on a terminal of its own."""
    near, far = pty.openpty()
    process = subprocess.Popen(_command("top", "--url", url), env=_environment(), stdin=far, stdout=far, stderr=far)
    os.close(far)
    reader = threading.Thread(target=_drain, args=(near,), daemon=True)
    reader.start()
    try:
        time.sleep(2)  # starting is not watching
        before = _seconds(process.pid)
        time.sleep(SECONDS_OF_TOP)
        used = _seconds(process.pid) - before
        os.write(near, b"q")
        process.wait(10)
    finally:
        process.kill()
        process.wait()
        reader.join(2)
        os.close(near)
    return 100 * used / SECONDS_OF_TOP


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass  # the other side is closed


def _seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _server_seconds(bench: Bench) -> float:
    used = bench.server.connection.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
