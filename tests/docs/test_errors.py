"""docs/errors.md has every code, its messages are those that are raised, its code runs, and every error leads there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import holdtight
from holdtight import LockError
from holdtight.base.error_texts import EXPLAIN
from tests.docs.errors import scenes
from tests.docs.errors.page import ANCHORS, CODES, ROOT, SECTIONS, TEXT, anchor, normal
from tests.docs.errors.scenes import Scene, Stage
from tests.support.servers import StartServer

PLAYED = [title for title, section in SECTIONS.items() if "```python" in section.text]
SEEDS = (
    "UNLOCK_FAILED",
    "LOCK_TIMEOUT",
    "WATCHDOG_RENEWAL_FAILED",
    "RedisConnectionError",
    "LuaScriptError",
    "Redlock quorum not reached",
    "CONCURRENT_MODIFICATION",
    "OOM",
    "DEADLOCK",
    "CLOCK_DRIFT",
)


def errors() -> Iterator[type[LockError]]:
    """Every class of holdtight's, wherever it is."""
    for module in pkgutil.walk_packages(holdtight.__path__, "holdtight."):
        importlib.import_module(module.name)
    found = [LockError]
    for cls in found:
        found += cls.__subclasses__()
    return (cls for cls in found if cls.__module__.startswith("holdtight."))


CLASSES = list(errors())


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    assert CODES.keys() == {cls.code for cls in CLASSES if cls.code}
    assert len(CODES) == 16


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_message_ends_with_the_command_that_explains_it(cls: type[LockError]) -> None:
    if cls is LockError:
        return  # the root: it is never raised, and has no code
    text = str(cls("something happened"))
    assert text == f"something happened. See: {EXPLAIN} {cls.code}"
    assert text.rpartition(" ")[2] in CODES


def test_the_table_at_the_top_has_every_code_with_its_class_and_leads_there() -> None:
    rows = re.findall(r"^\| \[`([A-Z_]+)`\]\(#(\w+)\) \| `(\w+)`(?:, also an? `(\w+)`)? \| .+ \| .+ \|$", TEXT, re.M)
    named = {row[0]: row[2] for row in rows}
    assert len(rows) == len(named)
    assert named == {cls.code: cls.__name__ for cls in CLASSES if cls.code and "code" in vars(cls)}
    for code, place, name, other in rows:
        assert place == anchor(code)
        assert not other or other in {base.__name__ for base in getattr(holdtight, name).__mro__}


@pytest.mark.parametrize("title", CODES)
def test_a_section_has_cause_message_remedy_and_what_is_carried(title: str) -> None:
    text = CODES[title].text
    places = [text.index(f"**{word}**") for word in ("Cause", "What to do", "Carries")]
    assert places == sorted(places)
    assert all(f"See: {EXPLAIN} {title}" in " ".join(message.split()) for message in CODES[title].messages)


def test_links_within_the_page_lead_somewhere() -> None:
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= ANCHORS
    for page in re.findall(r"\]\((\w+\.md)", TEXT):
        assert (ROOT / "docs" / page).is_file()


def test_the_ten_errors_that_go_round_are_mapped() -> None:
    rows = re.findall(r"^\| `(.+?)` \| .*", SECTIONS["Ten errors you may know"].text, re.M)
    assert len(rows) == len(SEEDS) == 10
    assert all(row.startswith(seed) for row, seed in zip(rows, SEEDS, strict=True))


@pytest.mark.parametrize("title", PLAYED)
def test_the_code_runs_and_the_messages_are_those_that_are_shown(title: str, start_server: StartServer) -> None:
    scene: Scene = getattr(scenes, anchor(title).replace("-", "_"))
    with ExitStack() as stack:
        stage = Stage(title, start_server, stack)
        scene(stage)
    shown = [normal(message) for message in SECTIONS[title].messages]
    assert shown == [normal(f"{type(error).__name__}: {error}") for error in stage.printed]
    for error in stage.printed if title in CODES else ():
        assert isinstance(error, LockError)
        assert error.code == title
        assert all(_known(getattr(error, each)) for each in SECTIONS[title].carried)


def _known(value: Any) -> bool:
    return value is not None and value not in ("", {}, ())


def test_every_section_with_a_code_is_played() -> None:
    assert CODES.keys() < set(PLAYED)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_other_pages_lead_here(page: Path) -> None:
    assert "(docs/errors.md)" in page.read_text()
