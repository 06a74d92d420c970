"""The coordinator's side of the worker protocol: start a variant's process, give it drills, end it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from bench import venvs

HOME = Path(__file__).parent.parent


class WorkerFailed(RuntimeError):
    """The worker answered with an error, or ended."""


class Worker:
    """One process that runs one variant. One drill at a time; `send` and `receive` are the halves of `do`."""

    def __init__(self, variant: str, url: str, cpu: int | None = None) -> None:
        self.variant = variant
        environment = dict(os.environ)
        paths = (environment.get("PYTHONPATH", ""), str(HOME), str(HOME / "src"))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self._process = subprocess.Popen(
            venvs.command(variant, url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HOME,
            start_new_session=True,
        )
        self.pid = self._process.pid
        try:
            self.versions: dict[str, str] = self.do("versions")
            if cpu is not None:
                self.do("pin", cpus=[cpu])
        except WorkerFailed:
            self.close()
            raise

    def send(self, drill: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": drill, "with": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(f"{self.variant} has ended") from None

    def receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self.variant} has ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(f"{self.variant}: {answer['error']}")
        return answer["result"]

    def do(self, drill: str, **arguments: Any) -> Any:
        self.send(drill, **arguments)
        return self.receive()

    def close(self) -> None:
        """A worker ends when its input does; one that hangs is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
