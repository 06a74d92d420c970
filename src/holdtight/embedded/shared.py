"""The server behind `embedded://`: one per user, started by the first client, ended by its supervisor.

A client never reaches a server that is about to end: it connects while it holds the shared lock, and the supervisor
holds the exclusive one when it decides that no client is left. There is never a second server beside the first: only
the holder of the supervisor's lock may start one, and not while a server still listens.
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
# The supervisor reports one of these, once.
READY, BUSY, FAILED = "ready", "busy", "failed"


def ensure(within: float = 10.0) -> str:
    """Starts the user's server if necessary and returns its `unix://` URL. The server may end unless a client connects
    soon."""
    with connecting(within) as url:
        return url


@contextmanager
def connecting(within: float = 10.0) -> Generator[str, None, None]:
    """Connect inside this block: until its end, the supervisor does not end the server at this URL for idleness."""
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
    # A server whose supervisor was killed keeps running, and gets a new supervisor from the next client.
    return listening(str(home.socket)) and home.supervised()


def _start(home: Home, deadline: float) -> str:
    """Starts a supervisor, which starts the server or takes over a running one; returns its report."""
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
            start_new_session=True,  # so that Ctrl-C in one program does not end it
        ) as process,
    ):
        # The process forks and exits at once: leaving this block reaps it, and the supervisor is not our child.
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
    """Our environment, with this package on PYTHONPATH unless the interpreter finds it anyway."""
    root = Path(__file__).parents[2]
    if root.name in ("site-packages", "dist-packages"):  # on PYTHONPATH it could hide modules of the standard library
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
