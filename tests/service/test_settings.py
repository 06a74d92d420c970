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
