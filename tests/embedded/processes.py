"""What the tests of the embedded server need to know about processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def eventually(condition: Callable[[], object], what: str, within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.01)


def python(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """A program of its own that talks to the test by its stdin and stdout."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )


def said(program: "subprocess.Popen[str]") -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: "subprocess.Popen[str]", line: str = "") -> None:
    assert program.stdin is not None
    program.stdin.write(line + "\n")
    program.stdin.flush()


def finish(program: "subprocess.Popen[str]") -> int:
    with program:
        program.communicate(timeout=30)
    return program.returncode


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    command: str


def processes() -> list[Process]:
    if Path("/proc/self/stat").exists():
        found = (_from_proc(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [process for process in found if process]
    listed = subprocess.run(["ps", "-axwwo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return [Process(int(row[0]), int(row[1]), row[2][0], [*row, ""][3]) for row in rows]


def _from_proc(entry: Path) -> Process | None:
    try:
        # The second field is the program's name in brackets, which may itself have brackets and blanks.
        state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(int(entry.name), int(parent), state, command)


def gone(pid: int) -> bool:
    """Whether the process has ended. A zombie counts as ended only if process number 1 must reap it."""
    found = [process for process in processes() if process.pid == pid]
    return all(process.state == "Z" and process.parent == 1 for process in found)


def zombies_of(parent: int) -> list[Process]:
    return [process for process in processes() if process.parent == parent and process.state == "Z"]


def running_with(text: str) -> list[int]:
    """The servers that have this text in their command line."""
    return [
        process.pid
        for process in processes()
        if text in process.command and "valkey-server" in process.command.split()[0]
    ]


def supervisors_of(folder: Path) -> list[int]:
    """Also those that are only just starting, or waiting for their turn."""
    module = "holdtight.embedded.supervisor"
    return [process.pid for process in processes() if module in process.command and str(folder) in process.command]
