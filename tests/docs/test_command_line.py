"""The commands of docs/command-line.md run, and its screens are those of the program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from holdtight import Locks, NotOwner
from holdtight.cli import exits, rows
from holdtight.cli.main import _VERBS, cli, run_cli  # pyright: ignore[reportPrivateUsage]
from holdtight.cli.top import COLUMNS, KEYS
from tests.support.servers import RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
_FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
BLOCKS = [text for kind, text in _FENCED if kind == "sh"]
SCREENS = [text for kind, text in _FENCED if not kind]
CLI = f"#!{sys.executable}\nfrom holdtight.cli import main\nmain()\n"


def commands(block: str) -> list[list[str]]:
    found = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert all(words[0] == "holdtight" for words in found)
    return [words[1:] for words in found]


def test_the_page_has_the_blocks_that_are_played_here() -> None:
    assert len(BLOCKS) == 5
    assert commands(BLOCKS[4]) == [["bench"], ["demo"]], "tests/cli plays them"
    assert len(SCREENS) == 5


@pytest.mark.parametrize("block", BLOCKS[:2], ids=["run", "lead"])
def test_commands_run_under_their_locks(block: str, private_server: RunningServer, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "holdtight"
    program.parent.mkdir()
    for name in ("job", "read-only", "encode", "poll", "serve"):
        (tmp_path / f"{name}.sh").write_text('#!/bin/sh\necho "$HOLDTIGHT_NAME"\n')
    program.write_text(CLI)
    for script in (program, *tmp_path.glob("*.sh")):
        script.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOLDTIGHT_URL": private_server.url,
    }
    done = subprocess.run(["sh", "-ec", block], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    named = [words[words.index("--") - 1] for words in commands(block)]
    assert done.stdout.split() == named, "each ran under the lock that its line names"


def test_the_commands_that_look_and_act(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDTIGHT_URL", private_server.url)
    private_server.command("CONFIG", "SET", "appendonly", "yes")
    looking, acting = map(commands, BLOCKS[2:4])
    assert acting.pop() == ["serve", "--open"], "tests/service plays it"
    with Locks(private_server.url) as locks:
        with locks.lock("order:42", ttl=20):
            for words in looking:
                assert run_cli(words) == 0, words
                out = capsys.readouterr().out
                assert words[0] in ("wait", "explain") or "order:42" in out, words
        lease = locks.lock("nightly", ttl=20).acquire()
        for words in acting:
            assert run_cli(words) == 0, words
            out = capsys.readouterr().out
            assert words[0] == "doctor" or "nightly" in out, words
        with pytest.raises(NotOwner):
            lease.release()


def test_the_screens_have_the_columns_of_the_program() -> None:
    ls, show, graph, watched, doctor = (screen.splitlines() for screen in SCREENS)
    assert tuple(ls[0].split()) == rows.COLUMNS
    assert show[1].split() == ["host", "pid", "label", "fence", "left", "owner"]
    assert [line.split()[0] for line in graph] == ["stock:7", "held", "waits", "held"]
    assert tuple(watched[1].split()) == COLUMNS
    assert watched[-1] == KEYS
    assert [line.split()[0] for line in doctor] == ["WARNING", "seen:", "means:", "change:"]


def test_every_option_of_all_verbs_is_on_the_page() -> None:
    for option in cli.params:
        named = option.opts if isinstance(option, click.Option) and option.name != "version" else []
        assert all(re.search(rf"`{each}\b", PAGE) for each in named), named


def test_every_verb_and_every_exit_code_is_on_the_page() -> None:
    said = {words[0] for block in BLOCKS for words in commands(block)}
    assert set(_VERBS) - said == {"token"}
    codes = set(map(int, re.findall(r"\b\d{2,3}\b", " ".join(re.findall(r"^\| ([^|]+) \|", PAGE, flags=re.MULTILINE)))))
    named = (exits.USAGE, exits.UNAVAILABLE, exits.OURS, exits.NOT_ACQUIRED, exits.LOST, exits.NOT_PERMITTED)
    assert set(named) <= codes
