"""Clients in other languages: each gets its lock, whatever answer is lost on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdtight import Locks
from tests.service.instances import Instance, instance, token_file
from tests.service.swallowing import first_of_each_path, swallower
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


@pytest.fixture(scope="module")
def served(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, str]]:
    folder = tmp_path_factory.mktemp("examples")
    path, (token,) = token_file(folder, "lock")
    with instance(shared_server.url, folder, "--tokens", str(path)) as one:
        yield one, token


PROGRAMS = {
    "curl": ("sh", "lock.sh", ("sh", "-c", 'echo "fence $FENCE"')),
    "node": ("node", "session.mjs", ()),
    "java": ("java", "Session.java", ()),
}


def run(language: str, url: str, token: str, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    program, file, more = PROGRAMS[language]
    for needed in (language, program):
        if shutil.which(needed) is None:
            pytest.skip(f"needs {needed}")
    env = os.environ | {"HOLDTIGHT": url, "TOKEN": token}
    command = [program, str(ROOT / "examples" / "service" / file), name, *(words or more)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_in_another_language_gets_its_lock_whatever_answer_is_lost(
    server: RunningServer, served: Any, language: str
) -> None:
    """The answer to each of its requests is lost once; it asks again, and the lock is granted to it once. Of the two
    instances that programs with a list of them know, one is gone."""
    one, token = served
    name = f'from "{language}"'
    with swallower(one.url, first_of_each_path()) as lossy:
        gone = "" if language == "curl" else "http://127.0.0.1:1,"
        done = run(language, gone + lossy.url, token, name)
    assert done.returncode == 0, done.stderr
    assert {"/v1/session/open", "/v1/acquire", "/v1/session/close"} <= set(lossy.lost)
    fence = int(done.stdout.split()[1])
    wait_for(lambda: bool(one.get("/v1/lock", token, name=name).json()["history"]), within=10)
    shown = one.get("/v1/lock", token, name=name).json()
    assert {each["fence"] for each in shown["history"] if each["kind"] == "granted"} == {fence}
    assert not shown["holders"]


def test_a_shell_script_passes_its_status_on(server: RunningServer, served: Any) -> None:
    one, token = served
    assert run("curl", one.url, token, "nightly", "sh", "-c", "exit 3").returncode == 3
    with Locks(server.url) as locks, locks.lock("nightly"):
        pass


def test_a_shell_script_ends_its_command_when_the_lock_is_lost(server: RunningServer, served: Any) -> None:
    """An operator takes the lock away: the next beat tells, and the command ends."""
    one, token = served
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run, "curl", one.url, token, "taken", "sleep", "60")
        with Locks(server.url) as locks:
            wait_for(lambda: locks.inspect("taken").locked, within=30)
            locks.force_release("taken", reason="a test")
        assert done.result().returncode == 128 + 15
