"""docs/recipes/pytest.md, with pytest and pytest-xdist."""

from __future__ import annotations

from pathlib import Path

from tests.docs.recipes.page import PATIENCE, Run, commands, unpack
from tests.support.homes import own_home


def test_its_tests_pass_and_the_database_is_built_once(tmp_path: Path, run: Run) -> None:
    folder = unpack("pytest", tmp_path / "project")
    words = commands("pytest")[-1]
    assert words[:2] == ["pytest", "-n"]
    with own_home(tmp_path / "home"):
        plugins = ("-p", "holdtight.testing", "-p", "xdist")  # those that its reader would have
        temporary = ("--basetemp", str(tmp_path / "temporary"))
        child = run(
            folder,
            ["-m", *words, "-q", "-W", "error::ResourceWarning", *plugins, *temporary],
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        )
        said = child.lines(PATIENCE)
        assert child.wait() == 0, said
    assert "11 passed" in said[-1]
    assert (tmp_path / "temporary" / "builds").read_text() == "built\n"
