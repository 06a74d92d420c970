"""docs/serving.md and docs/service.md: code that runs, and all that they should name."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import click

from holdtight.cli.serve import serve
from holdtight.server.looks import LOOKS
from holdtight.server.problems import TITLES
from holdtight.server.verbs import VERBS

DOCS = Path(__file__).parents[2] / "docs"
SERVING = (DOCS / "serving.md").read_text("utf-8")
SERVICE = (DOCS / "service.md").read_text("utf-8")


def test_the_code_runs() -> None:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", SERVING, re.DOTALL)
    assert len(blocks) == 2
    found: dict[str, Any] = {}
    exec(blocks[0], found)
    found["locks"].close()
    exec(blocks[1], found)
    assert found["program"].routes[0].path == "/locks"
    asyncio.run(found["locks"].aclose())


def test_every_verb_look_and_error_is_named() -> None:
    for word in (*VERBS, *LOOKS):
        assert f"`{word}" in SERVICE, word
    named = {int(status) for status in re.findall(r"\b([45][0-9]{2})\b", SERVICE)}
    assert TITLES.keys() <= named


def test_every_setting_is_named() -> None:
    flags = {flag for option in serve.params if isinstance(option, click.Option) for flag in option.opts}
    common = {"--help", "--json", "--quiet", "-q", "--verbose", "-v", "--timeout"}
    assert {flag for flag in flags - common if f"`{flag}`" not in SERVING} == set()


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", SERVING)
    assert pictures
    assert all((DOCS / path).is_file() for path in pictures)
