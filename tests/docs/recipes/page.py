"""The programs of docs/recipes/: each block is a file, whose name stands behind the language."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.support.processes import Child

__all__ = ["PAGES", "PATIENCE", "SOURCE", "Run", "commands", "files", "program", "unpack"]

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
PAGES = ROOT / "docs" / "recipes"
PATIENCE = 120.0
"""Frameworks take a second to load, and on a busy machine many."""
_BLOCK = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Run: TypeAlias = Callable[..., Child]
"""What the fixture `run` gives: as `program`, ended with the test."""


def files(page: str) -> dict[str, str]:
    """Names of files, or of cells, with their text."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    return {name: body for language, name, body in _BLOCK.findall(text) if language == "python"}


def commands(page: str) -> list[list[str]]:
    """The lines to type, in words."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    shells = [body for language, _, body in _BLOCK.findall(text) if language == "sh"]
    return [shlex.split(line) for body in shells for line in body.splitlines()]


def unpack(page: str, folder: Path) -> Path:
    """Writes the files of a page as they stand there."""
    for name, body in files(page).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, "utf-8")
    return folder


def program(folder: Path, words: Sequence[str], **environment: str) -> Child:
    """Runs a module of Python, or a file, in that folder: `["-m", "gunicorn", …]`."""
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), sys.executable, *words]
    return Child(command, {"PYTHONPATH": f"{SOURCE}:{folder}", "PYTHONUNBUFFERED": "1", **environment})
