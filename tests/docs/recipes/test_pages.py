"""Every recipe is in the table, says first when to use it, has its tests, and leads where there is a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.recipes.page import PAGES, files

RECIPES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


def test_the_table_has_every_recipe_and_each_has_tests() -> None:
    listed = re.findall(r"^\| \[[\w ]+\]\((\w+)\.md\)", (PAGES / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == RECIPES == ["celery", "django", "fastapi", "gunicorn", "jupyter", "pytest"]
    assert all((Path(__file__).parent / f"test_{name}.py").is_file() for name in RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_when_shows_a_program_and_what_to_know(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text("utf-8")
    assert re.match(r"# .+\n\n\*\*When\*\* ", text)
    assert "**What to know**" in text
    assert "" not in files(name), "every block of Python is a file"
    for code in files(name).values():
        compile(code, name, "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT: a notebook's
    for link in re.findall(r"\]\(([\w./]+\.md)\)", text):
        assert (PAGES / link).is_file(), link
