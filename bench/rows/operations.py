"""Looking and acting from outside: list, doctor, release by force, and the command line as processes.

These have no peers: the figures stand by themselves.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench import cpus
from bench.results import Outcome
from bench.rounds import Bench
from bench.stats import median, percentile
from bench.wire import Monitor, count_requests
from bench.worker_process import HOME, Worker, WorkerFailed

SECONDS_OF_TOP = 8.0
FOREIGN = 100_000
"""Foreign keys of one request that fills the database."""
LOGGED_US = 100
INBOX_AND_ALARM = 2
"""How many channels the connection of a keeper listens to; others listen to their inbox alone."""
_ADDRESS = re.compile(r" addr=(\S+)")
LONGEST = """
local longest = 0
for _, each in ipairs(redis.call('SLOWLOG', 'GET', 1024)) do
  if string.lower(each[4][1]) ~= 'config' and each[3] > longest then longest = each[3] end
end
return tostring(longest)
"""
"""The microseconds of the longest call in the slow log, or 0."""
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
    figures["operations.forced.trips"] = _round_trips(bench, mine)
    outcome.rounds["forced ms"] = {"median": median(forced), "p99": figures["operations.forced"]}
    for locks in (10_000, 100_000):
        bench.server.clear()
        mine.do("free.hold", count=locks, ttl=600)
        looked = [mine.do("operations.listing", expected=locks) for _ in range(max(1, effort.rounds // 2))]
        figures[f"operations.list.{locks}"] = median([each["seconds"] for each in looked])
        outcome.rounds[f"list of {locks}"] = looked
        _note_processor_time(outcome, f"list of {locks:,} locks", looked)
        if locks == 10_000:
            figures["operations.doctor"] = median([mine.do("operations.doctor") for _ in looked])
    figures["operations.megabytes"] = max(each["megabytes"] for each in looked)
    seconds = figures["operations.list.100000"]
    if bench.cpus.pinned:  # on the server's core: sharing one with the lister would measure the scheduler
        other.do("pin", cpus=[bench.cpus.server])
    rises = list[float]()
    for _ in looked:  # the median of several: anything else that runs here adds milliseconds to one
        quiet = other.do("operations.pairs", seconds=seconds)
        other.send("operations.pairs", seconds=seconds)
        mine.do("operations.listing", expected=100_000)
        rises.append(other.receive() - quiet)
    figures["operations.others"] = median(rises)
    outcome.rounds["others' p99 rises by, ms"] = [round(each, 3) for each in rises]
    bench.server.clear()
    mine.do("free.hold", count=10_000, ttl=600)
    for start in range(0, 1_000_000, FOREIGN):
        bench.server.connection.ask("EVAL", FILL, 0, start, FOREIGN)
    # The least of three: a call of which the machine takes the processor away counts that time too.
    among, longest = zip(*(_among_foreign_keys(bench, mine) for _ in range(3)), strict=True)
    figures["operations.foreign"] = min(each["seconds"] for each in among) - figures["operations.list.10000"]
    figures["operations.foreign.call"] = min(longest)
    _note_processor_time(outcome, "list among a million foreign keys", among)
    bench.server.clear()


def _note_processor_time(outcome: Outcome, what: str, looked: Sequence[dict[str, float]]) -> None:
    spent = min(each["processor"] for each in looked)
    outcome.notes.append(f"operations: {what}: {spent:.2f} s of processor time in the client")


def _among_foreign_keys(bench: Bench, mine: Worker) -> tuple[dict[str, float], float]:
    """What a list took, and the longest call at the server, in milliseconds."""
    ask = bench.server.connection.ask
    for name, value in (("slowlog-log-slower-than", LOGGED_US), ("slowlog-max-len", 1024)):
        ask("CONFIG", "SET", name, value)
    ask("SLOWLOG", "RESET")
    looked: dict[str, float] = mine.do("operations.listing", expected=10_000)
    longest = float(ask("EVAL", LONGEST, 0))
    return looked, longest / 1000


def _round_trips(bench: Bench, mine: Worker) -> float:
    """Requests from the call of `force_release` until the next holder runs. Those of keepers are no part of that way:
    a keeper renews at once what it is told was forced, so that the old holder learns of it."""
    log = Monitor(bench.server.port)
    mark = log.cut()
    mine.do("operations.forced", times=1, marked=True)
    _, _, rest = log.until(mark, b'"forced-end"').partition(b'"forced-begin"')
    log.close()
    clients = bench.server.connection.ask("CLIENT", "LIST").splitlines()
    keepers = {_ADDRESS.findall(each)[0].encode() for each in clients if f" sub={INBOX_AND_ALARM} " in each}
    between = rest.partition(b'"forced-end"')[0].split(b"\r\n")[1:-1]
    return float(sum(count_requests(b"\r\n".join(between), keepers).values()))


def _commands(bench: Bench, outcome: Outcome) -> None:
    """Each command is a process of its own, as its user starts it."""
    figures, times = outcome.figures, bench.effort.imports
    url = bench.server.url
    _timed("run", "warm-up", "--url", url, "--", "true")  # writes the compiled files
    took = [_timed("run", "x", "--url", url, "--", "true") for _ in range(times)]
    figures["operations.run"] = median(took) * 1000
    figures["operations.run.memory"] = _most_memory("run", "x", "--url", url, "--", "true")
    outcome.rounds["run ms"] = [round(each * 1000, 1) for each in took]
    figures["operations.guardian"] = _guardian(url)
    with Worker("holdtight", url) as holder:
        bench.server.clear()
        holder.do("free.hold", count=10_000, ttl=600)
        figures["operations.ls"] = median([_timed("ls", "--json", "--url", url) for _ in range(3)])
        bench.server.clear()
        holder.do("free.hold", count=1_000, ttl=600)
        there = bench.server.worked()
        start = time.perf_counter()
        figures["operations.top"] = _top(url)
        took_top = time.perf_counter() - start
        figures["operations.top.server"] = 100 * (bench.server.worked() - there) / took_top


def _environment() -> dict[str, str]:
    paths = (os.environ.get("PYTHONPATH", ""), str(HOME / "src"))
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "TERM": "xterm"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # or every command would compile what it loads
    return found


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdtight", *words]


def _timed(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        _command(*words), env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - start


def _most_memory(*words: str) -> float:
    """Megabytes, as a small process sees them: a new process counts what the one that started it had."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    starter = [sys.executable, "-c", code, *_command(*words)]
    done = subprocess.run(starter, env=_environment(), capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


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
        before = cpus.used_by(process.pid)
        time.sleep(SECONDS_OF_TOP)
        used = cpus.used_by(process.pid) - before
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
