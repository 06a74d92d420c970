"""The server behind `embedded://`: one per user, started by the first client, ended by its supervisor.

Why nobody ever meets a server that is about to end: a client connects while it holds the shared
lock, and the supervisor decides under the exclusive one that no client is left. Why there is never
a second server beside the first: only the holder of the supervisor's lock may start one, and it
starts none where somebody still listens.
"""

import math
import os
import select
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from holdtight.embedded.binary import find_binary, interpreter
from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.folder import Home, home_of_user
from holdtight.embedded.wire import listening

IDLE_VARIABLE = "HOLDTIGHT_EMBEDDED_IDLE"
_IDLE_SECONDS = 60.0
_SUPERVISOR = "holdtight.embedded.supervisor"
# What the supervisor says once, when it knows.
READY, BUSY, FAILED = "ready", "busy", "failed"


def ensure(within: float = 10.0) -> str:
    """The `unix://` URL of the user's server, which runs. It may end again unless a client connects soon."""
    with connecting(within) as url:
        return url


@contextmanager
def connecting(within: float = 10.0) -> Generator[str, None, None]:
    """Connect inside this block: while it lasts, the server at the URL it gives is not ended for idleness."""
    deadline = time.monotonic() + within
    home = home_of_user()
    while True:
        with home.locked(exclusive=False, deadline=deadline):
            if _served(home):
                yield home.url
                return
        with home.locked(exclusive=True, deadline=deadline):
            said = READY if _served(home) else _start(home, deadline)
        if said != READY:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"the embedded server did not start within {within:g} s. Try again when the machine is less busy, "
                    f"or name the URL of a server of your own{_log_of(home)}"
                )
            time.sleep(0.01)


def _served(home: Home) -> bool:
    # A server whose supervisor was killed goes on serving, and gets a new supervisor from the next client.
    return listening(str(home.socket)) and home.supervised()


def _start(home: Home, deadline: float) -> str:
    """Start a supervisor, which starts the server or takes over a running one; returns what it says."""
    command = [interpreter(), "-P", "-m", _SUPERVISOR, str(home.folder), str(find_binary()), str(_idle_seconds())]
    with (
        home.log.open("ab") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # so that Ctrl-C in one program does not take it along
        ) as process,
    ):
        # The process forks and ends at once: leaving this block reaps it, and the supervisor is no child of ours.
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            process.kill()
            return BUSY
        said, _, detail = process.stdout.readline().decode(errors="replace").strip().partition(" ")
    if said not in (READY, BUSY):
        raise EmbeddedError(
            f"the embedded server could not be started: {detail or 'no reason given'}. Remove what stands in its way, "
            f"or name the URL of a server of your own{_log_of(home)}"
        )
    return said


def _environment() -> dict[str, str]:
    """Ours, and a way to this very package if it is not where the interpreter looks anyway."""
    root = Path(__file__).parents[2]
    if root.name in ("site-packages", "dist-packages"):  # put first, it could hide modules of the standard library
        return dict(os.environ)
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def _idle_seconds() -> float:
    text = os.environ.get(IDLE_VARIABLE)
    if not text:
        return _IDLE_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{IDLE_VARIABLE} must be a number of seconds above 0, not {text!r}")
    return seconds


def _log_of(home: Home) -> str:
    try:
        tail = home.log.read_text(errors="replace").splitlines()[-5:]
    except FileNotFoundError:
        return ""
    return ". The end of its log:\n" + "\n".join(tail)
