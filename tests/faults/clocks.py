"""Servers whose wall clock a test can step, by a shim that is preloaded into them (clockshim.c)."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.processes import wait_for
from tests.support.servers import Flavour, RunningServer, StartServer

__all__ = ["Clock", "build_shim", "server_time", "start_stepped", "step"]


class Clock:
    """The wall clock of one server."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)

    def step_to(self, offset: float) -> None:
        self._shared[:] = struct.pack("q", int(offset * 1e9))

    def close(self) -> None:
        self._shared.close()


def build_shim(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (cc) to build the clock shim")
    library = folder / "clockshim.so"
    source = Path(__file__).with_name("clockshim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def start_stepped(start_server: StartServer, shim: Path, offsets: Path, **options: Flavour) -> RunningServer:
    """A server whose wall clock is that of the Clock in the file `offsets`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(shim))
        patch.setenv("CLOCKSHIM_FILE", str(offsets))
        return start_server(**options)


def server_time(server: RunningServer) -> float:
    seconds, micros = server.command("TIME")
    return int(seconds) + int(micros) / 1e6


def step(server: RunningServer, clock: Clock, offset: float) -> None:
    """Also waits until the server has read its clock, which it does once per turn of its loop."""
    clock.step_to(offset)
    wait_for(lambda: abs(server_time(server) - time.time() - offset) < 10)
