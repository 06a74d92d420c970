"""Clients in other languages, and the files with which operators run the service."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtight import Locks
from tests.service.instances import Instance, instance, token_file
from tests.support.servers import FLAVOURS, RunningServer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


@pytest.fixture(scope="module")
def served(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, str]]:
    folder = tmp_path_factory.mktemp("examples")
    path, (token,) = token_file(folder, "lock")
    with instance(shared_server.url, folder, "--tokens", str(path)) as one:
        yield one, token


def run(served: Any, *command: str) -> subprocess.CompletedProcess[str]:
    one, token = served
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    env = os.environ | {"HOLDTIGHT": one.url, "TOKEN": token}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_shell_script_runs_a_command_under_a_lock(server: RunningServer, served: Any) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    script = str(ROOT / "examples" / "service" / "lock.sh")
    done = run(served, "sh", script, "nightly", "sh", "-c", 'echo "fence $FENCE"; exit 3')
    assert done.returncode == 3, done.stderr
    assert int(done.stdout.split()[1]) > 1_700_000_000_000_000
    with Locks(server.url) as locks:
        assert not locks.inspect("nightly").locked


def test_a_node_program_has_a_session(server: RunningServer, served: Any) -> None:
    done = run(served, "node", str(ROOT / "examples" / "service" / "session.mjs"), "from-node")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fence ")
    with Locks(server.url) as locks:
        assert not locks.inspect("from-node").locked


def test_systemd_accepts_the_unit(server: RunningServer, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = ROOT / "deploy" / "service" / "holdtight.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "holdtight.service" not in done.stderr, done.stderr
