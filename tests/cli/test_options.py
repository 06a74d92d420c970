"""Options that all verbs take, durations, and where options come from: the line, the environment, a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from holdtight import Locks, __version__
from holdtight.cli.main import _VERBS, cli, run_cli  # pyright: ignore[reportPrivateUsage]
from tests.cli.conftest import Run
from tests.support.servers import RunningServer

VERBS = list(_VERBS)


def command(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found


def url_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDTIGHT_URL", "redis://127.0.0.1:1")


# Durations


def durations() -> Iterator[tuple[str, str]]:
    """Each option that takes a duration, with its verb; one that all verbs have, once."""
    for verb in VERBS:
        for option in command(verb).params:
            if option.type.name == "duration" and (verb == "ls" or option.name != "timeout"):
                yield verb, max(option.opts, key=len)


@pytest.mark.parametrize(("verb", "option"), sorted(set(durations())), ids=lambda word: word)
def test_what_is_no_duration_is_refused_before_anything_is_done(
    verb: str, option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url_of_nobody(monkeypatch)
    more = {"sem": ("-p", "1", "x", "--", "true"), "run": ("x", "--", "true"), "wait": ("x",), "show": ("x",)}
    for number in ("nan", "inf", "-1", "1e999", "-inf", "-5s", "", "1s1"):
        assert run_cli([verb, f"{option}={number}", *more.get(verb, ())]) == 64
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert f"{number!r} is no duration" in said.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["top", "-d", "0"], "at least 0.05 s"),
        (["top", "-d", "1e300"], "at most 86400 s"),
        (["bench", "--seconds", "1ns"], "is no duration"),
        (["bench", "--seconds", "1e-9"], "at least 0.01 s"),
        (["ls", "--timeout", "0"], "connect_timeout must be above 0"),
    ],
)
def test_a_duration_that_makes_no_sense_there_is_refused(
    words: Sequence[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url_of_nobody(monkeypatch)
    assert run_cli(words) == 64
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


def test_durations_are_numbers_or_have_a_unit(run: Run, locks: Locks) -> None:
    with locks.lock("x"):
        for text in ("0", "1e-3", "0.01", "20ms", " 1ms "):
            assert run("wait", "-w", text, "x")[0] == 75


# Where options come from


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_has_the_variable_that_its_name_says(verb: str) -> None:
    """click makes the variable of the parameter's name."""
    for option in command(verb).params:
        if isinstance(option, click.Option):
            name = (option.name or "").replace("_", "-")
            assert f"--{name}" in option.opts, f"HOLDTIGHT_{verb}_{option.name} for {option.opts}".upper()


def names(said: tuple[int, str, str]) -> list[str]:
    assert said[0] == 0, said
    return [line.split()[0] for line in said[1].splitlines()[1:]]


def test_the_line_counts_for_more_than_the_variable_of_a_verb_and_that_for_more_than_the_common_one(
    run: Run, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Locks(server.url, namespace="one") as one,
        Locks(server.url, namespace="two") as two,
        one.lock("in-one"),
        two.lock("in-two"),
    ):
        assert names(run("ls")) == []
        monkeypatch.setenv("HOLDTIGHT_NAMESPACE", "one")
        assert names(run("ls")) == ["in-one"]
        monkeypatch.setenv("HOLDTIGHT_LS_NAMESPACE", "two")
        assert names(run("ls")) == ["in-two"]
        assert names(run("ls", "--namespace", "one")) == ["in-one"]
        assert names(run("--namespace", "one", "ls")) == ["in-one"]
        assert names(run("--namespace", "two", "ls", "--namespace", "one")) == ["in-one"]
        monkeypatch.setenv("HOLDTIGHT_LS_SORT", "nothing")
        code, _, err = run("ls")
        assert (code, err.count("\n")) == (64, 1)
        assert "HOLDTIGHT_LS_SORT" in err or "--sort" in err


def test_the_url_comes_from_the_line_a_file_or_the_environment(
    run: Run, server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nobody, file, empty = "redis://127.0.0.1:1", tmp_path / "url", tmp_path / "empty"
    file.write_text(f"\n{server.url}\n")
    empty.write_text("\n")
    with Locks(server.url) as locks, locks.lock("here"):
        monkeypatch.setenv("HOLDTIGHT_URL", nobody)
        for words in (
            ("ls", "--url", server.url),
            ("--url", server.url, "ls"),
            ("ls", "--url-file", str(file)),
            ("--url-file", str(file), "ls"),
        ):
            assert names(run(*words)) == ["here"], words
        assert run("ls")[0] == 69
        code, _, err = run("ls", "--url-file", str(empty))
        assert (code, err) == (64, f"holdtight: Invalid value for '--url-file': {empty} has no URL\n")
        monkeypatch.setenv("HOLDTIGHT_LS_URL", server.url)
        assert names(run("ls")) == ["here"]
        assert run("ls", "--url", nobody)[0] == run("--url", nobody, "ls")[0] == 69
        monkeypatch.delenv("HOLDTIGHT_LS_URL")
        monkeypatch.setenv("HOLDTIGHT_URL_FILE", str(file))
        assert names(run("ls")) == ["here"]
        monkeypatch.delenv("HOLDTIGHT_URL_FILE")
        monkeypatch.delenv("HOLDTIGHT_URL")
        monkeypatch.setenv("REDIS_URL", server.url)
        assert names(run("ls")) == ["here"]


# Help


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_ends_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h"):
        assert run_cli([verb, flag]) == 0
        said = capsys.readouterr()
        _, examples, lines = said.out.partition("\n  Examples:\n")
        assert examples
        assert said.err == ""
        assert [line for line in lines.splitlines() if not line.strip()] == []
        assert all(line.startswith("    ") for line in lines.splitlines())
        assert f"holdtight {verb}" in lines


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--version"]) == 0
    assert capsys.readouterr().out == f"holdtight, version {__version__}\n"


def test_the_command_line_starts_with_the_oldest_click_that_it_allows() -> None:
    """Before 8.4, click's types took no type argument."""
    script = (
        "import click\n"
        "click.ParamType.__class_getitem__ = None\n"
        "from importlib import import_module\n"
        "from holdtight.cli.main import _VERBS\n"
        "for module, _ in _VERBS.values(): import_module(f'holdtight.cli.{module}')\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False,
                          env={"PYTHONPATH": ":".join(sys.path)})  # fmt: skip
    assert said.stderr == ""
