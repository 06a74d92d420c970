"""What operators write and read: the config file, and the line that `holdtight token` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdtight.cli.main import run_cli
from holdtight.server import serving
from holdtight.server.tokens import TokenFile


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bind = 5", "bind must be a text in quotes"),
        ("open = 1", "open must be true or false"),
        ('url = ["redis://a", "redis://b"]', "url must be a text in quotes"),
        ('surprise = "x"', "unknown key 'surprise': remove it"),
        ("bind = ", "cannot be read"),
    ],
)
def test_a_wrong_config_is_told_by_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text, "utf-8")
    assert run_cli(["serve", "--url", "redis://127.0.0.1:1", "--config", str(config)]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "config.toml" in line


def test_the_options_of_all_verbs_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[serving.Settings] = []
    monkeypatch.setattr(serving, "serve", found.append)
    url = "redis://127.0.0.1:1"
    assert run_cli(["serve", "--url", url, "--namespace", "jobs", "--timeout", "250ms"]) == 0
    assert run_cli(["serve", "--url", url]) == 0
    with_options, without = (serving.client(each).settings for each in found)
    assert (with_options.namespace, with_options.connect_timeout) == ("jobs", 0.25)
    assert (without.namespace, without.connect_timeout) == ("ht", 2.0)


def test_a_token_is_printed_once_also_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.toml"
    words = ["token", "ci", "--role", "lock", "--prefix", "ci:", "--file", str(path)]
    assert run_cli([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.pop("token").startswith("ht_")
    assert printed == {"name": "ci", "role": "lock", "prefixes": ["ci:"]}
    assert run_cli(["token", "two", *words[2:]]) == 0
    assert TokenFile(path).find(capsys.readouterr().out.strip()) is not None


@pytest.mark.parametrize("name", ["url", "namespace"])
def test_the_file_counts_less_than_what_is_meant_for_serve_and_more_than_what_is_for_all_verbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found: list[serving.Settings] = []
    monkeypatch.setattr(serving, "serve", found.append)
    values = {each: f"redis://{each}:1" if name == "url" else each for each in ("all", "file", "own", "flag")}
    config, empty = tmp_path / "config.toml", tmp_path / "empty.toml"
    config.write_text(f'{name} = "{values["file"]}"\n', "utf-8")
    empty.write_text("", "utf-8")

    def settled(*words: str, file: Path = config) -> str:
        assert run_cli(["serve", "--config", str(file), *words]) == 0
        return str(getattr(found[-1], name))

    monkeypatch.setenv(f"HOLDTIGHT_{name.upper()}", values["all"])
    assert settled() == values["file"]
    assert settled(file=empty) == values["all"]
    assert settled(f"--{name}", values["flag"]) == values["flag"]
    monkeypatch.setenv(f"HOLDTIGHT_SERVE_{name.upper()}", values["own"])
    assert settled() == values["own"]
    assert settled(f"--{name}", values["flag"]) == values["flag"]


def test_a_quorum_for_other_verbs_is_no_obstacle_to_a_file_that_names_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[serving.Settings] = []
    monkeypatch.setattr(serving, "serve", found.append)
    monkeypatch.setenv("HOLDTIGHT_URL", "redis://a:1 redis://b:1 redis://c:1")
    config = tmp_path / "config.toml"
    config.write_text('url = "redis://one:1"\n', "utf-8")
    assert run_cli(["serve", "--config", str(config)]) == 0
    assert found[0].url == "redis://one:1"
    assert run_cli(["serve"]) == 64
