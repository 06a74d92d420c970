"""docs/recipes/jupyter.md, in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.docs.recipes.page import PATIENCE, SOURCE, files
from tests.support.homes import own_home


@pytest.fixture(autouse=True)
def own_embedded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with own_home(tmp_path / "home"):
        yield


def run(*cells: str) -> list[str]:
    """What each cell prints."""
    new: Any = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=int(PATIENCE), startup_timeout=int(PATIENCE)).execute()
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]


def test_a_lease_stays_held_from_cell_to_cell() -> None:
    cells = files("jupyter")
    assert list(cells) == [f"cell {number}" for number in range(1, 6)]
    *said, free, block = run(*cells.values())
    assert said[:2] == ["", ""]
    assert [line.rpartition(" ")[0] for line in said[2].splitlines()] == [f"epoch {n} with fence" for n in range(3)]
    assert (free, block) == ("free: True\n", "a block: True\n")


def test_the_cell_that_acquires_says_who_has_it_when_it_is_run_twice() -> None:
    one, two, *_ = files("jupyter").values()
    said = run(one, two, two)
    assert said[2].startswith("not now:")
    assert "(training.ipynb)" in said[2]
