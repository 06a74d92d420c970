"""No script uses a name that it has not declared: a fragment that expects a local which its script does not have would
fail only when a server reaches that line. And no script cuts a field out of a value by numbers of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtight.stores.redis import script as scripts
from holdtight.stores.redis.fields import FIELDS
from holdtight.stores.redis.script import Script
from holdtight.stores.redis.slots import ShardedScript
from tests.scripts.lua import free_names

FOLDER = Path(scripts.__file__).parent / "lua"
GIVEN = frozenset(["KEYS", "ARGV", "redis", "string", "math", "table", "ipairs", "tonumber", "type", "unpack"])
"""The globals that the server gives to a script."""


@pytest.mark.parametrize("form", [Script, ShardedScript])
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.lua")))
def test_a_script_uses_only_what_it_declares(name: str, form: type[Script]) -> None:
    assert free_names(form(name).body.decode(), GIVEN) == {}


FRAGMENTS = sorted((FOLDER / "lib").glob("*.lua"))
LOADED = frozenset(["K", "A", "call", "sub"])
"""The names that the loader declares in every script."""


def said(source: str, word: str) -> set[str]:
    """The names after this word in a fragment's header; 'nothing' is none."""
    lines = re.findall(rf"(?m)^-- {word} +([^:\n]+)", source)
    assert lines, f"no {word} line in the header"
    return set(" ".join(lines).split("nothing")[0].split())


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.stem)
def test_a_fragment_says_what_it_expects_and_leaves(fragment: Path) -> None:
    source = fragment.read_text("utf-8")
    text = scripts.expanded(source)
    assert said(source, "EXPECTS") == free_names(text, GIVEN | LOADED).keys()
    leaves = said(source, "LEAVES")
    after = f"{text}\nlocal _ = {{{', '.join(sorted(leaves))}}}" if leaves else text
    assert free_names(after, GIVEN | LOADED).keys() == said(source, "EXPECTS")


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.lua")), ids=lambda path: path.stem)
def test_a_script_names_the_fields_that_it_cuts_out(file: Path) -> None:
    """A number counted from the end pads a text, and names no field."""
    counted = re.findall(r"\bsub\([^()]*, [1-9].*", file.read_text("utf-8"))
    assert counted == [], "the positions of a field stand in stores/redis/fields.py"


def test_each_field_is_used() -> None:
    folder = Path(scripts.__file__).parents[1]
    readers = [path for ending in ("lua", "py") for path in folder.rglob(f"*.{ending}") if path.name != "fields.py"]
    used = {name for path in readers for name in re.findall(r"\b[A-Z_]+_OF\b", path.read_text("utf-8"))}
    assert FIELDS.keys() - used == set()


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("local a = 1\nreturn a + b", {"b": 2}),
        ("if x then local y = 1 end\nreturn y", {"x": 1, "y": 2}),
        ("local function f(a, ...) return a + f(a) end\nreturn f(1)", {}),
        ("local function f(a) return a end\nreturn a", {"a": 2}),
        ("for i = 1, 2 do local j = i end\nreturn i", {"i": 2}),
        ("for k, v in pairs({a = 1}) do return k .. v end", {"pairs": 1}),
        ("local t = {x = 1, ['y'] = z}\nreturn t.x + t[w]", {"z": 1, "w": 2}),
        ("return (function()\nlocal a = 'b -- c'\nreturn a end)() -- d", {}),
        ("if a then elseif b then local c = 1 else return c end", {"a": 1, "b": 1, "c": 1}),
        ("repeat local a = 1 until true\nreturn a", {"a": 2}),
        ("while true do local a = 1 end\nreturn a", {"a": 2}),
        ("call('GET', main)", {"call": 1, "main": 1}),
    ],
)
def test_a_free_name_is_seen(text: str, free: dict[str, int]) -> None:
    assert free_names(text, frozenset()) == free
