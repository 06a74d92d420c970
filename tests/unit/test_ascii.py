"""What holdtight prints can be printed anywhere: its own texts are ASCII, and so is what it prints of names and
labels, whatever users wrote."""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdtight
from holdtight.base.jobs import Skipped
from holdtight.base.values import Holder, LossReason, Member
from holdtight.errors import (
    DeadlockDetected,
    JobSkipped,
    LeaseLost,
    LockError,
    LockTimeout,
    StaleFence,
    Unavailable,
)
from tests.unit.test_errors import MADE

SOURCE = Path(holdtight.__file__).parent
ASCII_ONLY = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
PRINTS = """
import pickle, sys
assert sys.stdout.encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"), sys.stdout.encoding
for error in pickle.load(sys.stdin.buffer):
    print(error)
    print(repr(error))
"""


@pytest.mark.parametrize("variables", ASCII_ONLY, ids=["io-encoding", "locale"])
def test_every_error_can_be_printed_where_output_knows_ascii_only(variables: dict[str, str]) -> None:
    errors = [make() for make in MADE.values()]
    printed = subprocess.run(
        [sys.executable, "-c", PRINTS],
        input=pickle.dumps(errors),
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent), **variables},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert printed.returncode == 0, printed.stderr.decode()
    assert printed.stdout.decode("ascii") == "".join(f"{error}\n{error!r}\n" for error in errors)


HOLDER = Holder("AAAA", 7, "höst", 42, "naïve ✓")
BEYOND: dict[str, Callable[[str], LockError]] = {
    "timeout": lambda name: LockTimeout.after(name, 2.5, HOLDER, 3),
    "lost": lambda name: LeaseLost.because(name, LossReason.TAKEN, 7),
    "unavailable": lambda name: Unavailable.because(name, "redis://a", "kein Anschluß", 2.0),
    "deadlock": lambda name: DeadlockDetected.among((Member(name, name, "o", "w", label="ü"),), HOLDER, 1.25),
    "skipped": lambda name: JobSkipped.of(Skipped(name, "running", HOLDER)),
    "stale": lambda name: StaleFence.below(name, 7, 9),
}


@pytest.mark.parametrize("variables", ASCII_ONLY, ids=["io-encoding", "locale"])
def test_errors_about_names_that_are_not_ascii_can_be_printed_there_too(variables: dict[str, str]) -> None:
    errors = [make("größe 🔒") for make in BEYOND.values()]
    printed = subprocess.run(
        [sys.executable, "-c", PRINTS.replace("    print(repr(error))\n", "")],
        input=pickle.dumps(errors),
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent), **variables},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert printed.returncode == 0, printed.stderr.decode()
    assert printed.stdout.decode("ascii").count("gr\\xf6\\xdfe \\U0001f512") >= len(errors)


@pytest.mark.parametrize("make", BEYOND.values(), ids=BEYOND)
def test_the_message_and_the_name_of_an_error_stay_as_they_are(make: Callable[[str], LockError]) -> None:
    error = make("größe")
    assert error.name == "größe"
    assert "'größe'" in error.message
    assert "'größe'" in error.as_dict()["message"]
    assert "'gr\\xf6\\xdfe'" in str(error)


def texts(source: str) -> Iterator[ast.Constant]:
    """Every text in the code, other than docstrings and other texts that are only there to be read."""
    tree = ast.parse(source)
    read = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in read:
            yield node


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_texts_in_the_code_are_ascii(path: Path) -> None:
    found = [text for text in texts(path.read_text("utf-8")) if not str(text.value).isascii()]
    assert [f"line {text.lineno}: {text.value!r}" for text in found] == []


def test_a_text_that_is_not_ascii_is_seen() -> None:
    source = '"""Prose may have … in it."""\nraise ValueError(f"{name}: wait=…")'
    assert [text.value for text in texts(source) if not str(text.value).isascii()] == [": wait=…"]
