"""What an error means can be read offline: `python -m holdtight explain`, `holdtight.docs()`, from the page itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdtight
from holdtight import LockTimeout
from holdtight.explain import codes
from tests.docs.errors.page import CODES, ROOT, TEXT

SHIPPED = Path(holdtight.__file__).with_name("errors.md")


def explain(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdtight", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), **variables},
    )


def test_the_page_that_ships_is_the_page_of_the_documents() -> None:
    assert SHIPPED.read_text() == TEXT


@pytest.mark.parametrize("code", CODES)
def test_docs_gives_the_whole_section_of_a_code_and_nothing_else(code: str) -> None:
    assert holdtight.docs(code) == f"### {code}{CODES[code].text.partition('## Errors without')[0].rstrip()}\n"
    assert holdtight.docs(code.lower()) == holdtight.docs(code)


def test_a_code_that_no_error_has_is_told_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'LOCK_TIMEOT'.* LOCK_TIMEOUT, WATCHDOG.*NOT_SUPPORTED"):
        holdtight.docs("LOCK_TIMEOT")


def test_the_command_at_the_end_of_a_message_prints_its_section() -> None:
    command = str(LockTimeout.after("orders", 1.0, None, 0)).rpartition("See: ")[2].split()
    assert command[:3] == ["python", "-m", "holdtight"]
    said = explain(*command[3:])
    assert (said.returncode, said.stdout, said.stderr) == (0, holdtight.docs("LOCK_TIMEOUT"), "")


def test_without_a_code_it_lists_every_code_with_its_class_and_when() -> None:
    assert codes().keys() == CODES.keys()
    said = explain("explain")
    assert [line.split()[0] for line in said.stdout.splitlines()] == list(CODES)
    assert re.search(r"^LOCK_TIMEOUT +LockTimeout +the wait ended, somebody else holds the lock$", said.stdout, re.M)


@pytest.mark.parametrize(
    ("wrong", "status", "hint"),
    [(("explain", "NONSENSE"), 64, "LOCK_TIMEOUT"), (("frobnicate",), 64, "frobnicate"), ((), 64, "explain")],
)
def test_a_wrong_command_line_says_what_there_is(wrong: tuple[str, ...], status: int, hint: str) -> None:
    said = explain(*wrong)
    assert said.returncode == status
    assert hint in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("words", [(), ("deadlock",), ("NONSENSE",)], ids=lambda words: " ".join(words) or "all")
def test_without_the_extra_the_answer_is_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('No module named click', name='click')\n")
    with_click, without = (
        explain("explain", *words),
        explain("explain", *words, PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}"),
    )
    assert (without.returncode, without.stdout, without.stderr) == (
        with_click.returncode,
        with_click.stdout,
        with_click.stderr,
    )
    assert without.returncode == (64 if words == ("NONSENSE",) else 0)


def test_importing_holdtight_does_not_load_it() -> None:
    script = "import holdtight, sys; print('holdtight.explain' in sys.modules, 'argparse' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
@pytest.mark.parametrize("arguments", [("explain",), ("explain", "DEADLOCK"), ("explain", "LOCK_TIMEOUT"), ("--help",)])
def test_it_can_be_read_on_a_terminal_that_knows_ascii_only(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    said = explain(*arguments, **variables)
    assert (said.returncode, said.stderr) == (0, "")
    assert TEXT.isascii()


def test_the_rights_that_it_lists_are_those_of_the_page_about_permissions() -> None:
    acl = r"^ACL SETUSER .*?(?=^```)"
    (here,), (there, *_) = (
        re.findall(acl, text, flags=re.DOTALL | re.MULTILINE)
        for text in (CODES["NOT_PERMITTED"].text, (ROOT / "docs" / "permissions.md").read_text())
    )
    assert here == there
