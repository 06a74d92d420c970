"""Output for people and for programs. What a server tells is data: no control character of it reaches the terminal."""

import json
import re
import sys
from typing import Any

import click

__all__ = ["plain", "plain_lines", "print_json", "print_json_array"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text as one line, or a part of one: each control character as its code."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(plain, text.split("\n")))


def print_json(value: Any, *, err: bool = False) -> None:
    click.echo(json.dumps(value), err=err)


def print_json_array(values: Any) -> None:
    """One element a line, as they become known. `echo` would flush after each."""
    before = "["
    for value in values:
        sys.stdout.write(f"{before}\n{json.dumps(value)}")
        before = ","
    click.echo("[]" if before == "[" else "\n]")
