"""Programs whose threads or sockets are monkey-patched are refused with a message: the real gevent and eventlet."""

from __future__ import annotations

import subprocess
import sys

import pytest

PATCHERS = {
    "gevent": "from gevent.monkey import patch_all; patch_all()",
    "gevent, sockets only": "from gevent.monkey import patch_socket; patch_socket()",
    "eventlet": "from eventlet import monkey_patch; monkey_patch()",
    "eventlet, sockets only": "from eventlet import monkey_patch; monkey_patch(socket=True)",
}
USES = {
    "blocking": "holdtight.Locks('redis://127.0.0.1:1')",
    "asyncio": "holdtight.AsyncLocks('redis://127.0.0.1:1')",
    "drop-in": "Lock(redis.Redis(port=1), 'x').acquire(blocking=False)",
}
SCRIPT = """
import warnings
warnings.simplefilter("ignore")  # eventlet warns of its own end
{before}
import holdtight, redis
from holdtight.compat.redis_py import Lock
{after}
try:
    {use}
except holdtight.NotSupported as refusal:
    print(refusal.message)
"""


def said_by(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("patcher", "use"),
    [*((patcher, "blocking") for patcher in PATCHERS), ("gevent", "asyncio"), ("eventlet", "drop-in")],
)
def test_a_program_that_patched_before_the_import_is_refused(patcher: str, use: str) -> None:
    said = said_by(SCRIPT.format(before=PATCHERS[patcher], after="", use=USES[use]))
    assert said.startswith("sockets are" if "only" in patcher else "threads are")
    assert patcher.split(",")[0] in said
    assert "Use real threads or asyncio" in said


@pytest.mark.parametrize("patcher", PATCHERS)
def test_a_program_that_patched_after_the_import_is_refused(patcher: str) -> None:
    said = said_by(SCRIPT.format(before="", after=PATCHERS[patcher], use=USES["blocking"]))
    assert "monkey-patched" in said


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_a_program_that_has_the_package_but_patches_nothing_is_welcome(package: str) -> None:
    script = SCRIPT.format(before=f"import {package}; from {package} import *", after="", use=USES["blocking"])
    assert said_by(script) == ""
