"""Finds names that a Lua text uses without a declaration: a tokeniser, and the language's scoping as far as needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["free_names", "tokens"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>--(?:\[\[.*?\]\]|[^\n]*))
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\[\[.*?\]\])
      | (?P<number>0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.X | re.S,
)
_WORDS = {
    *("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not"),
    *("or", "repeat", "return", "then", "true", "until", "while"),
}


def tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and line of each; a keyword is its own kind. Space and comments are left out."""
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {line}: {text[at : at + 20]!r} is no Lua")
        kind, said = found.lastgroup or "", found[0]
        if kind not in ("space", "comment"):
            yield (said if kind == "name" and said in _WORDS else kind), said, line
        line += said.count("\n")
        at = found.end()


def free_names(text: str, known: frozenset[str]) -> dict[str, int]:
    """Names that are used where neither `known` nor a local of that scope has them, and the first line of each.

    A local counts from its declaration on, its own initial value included: `local x = x` is not reported.
    """
    read = list(tokens(text))
    scopes: list[set[str]] = [set(known)]
    free = dict[str, int]()
    at = 0
    pending: set[str] = set()  # of a `for`, known once its body begins

    def names_from(start: int) -> tuple[list[str], int]:
        """A list of names, and where it ends."""
        found = list[str]()
        while read[start][0] == "name" or read[start][1] in (",", "..."):
            if read[start][0] == "name":
                found.append(read[start][1])
            start += 1
        return found, start

    while at < len(read):
        kind, said, line = read[at]
        before = read[at - 1][1] if at else ""
        after = read[at + 1][1] if at + 1 < len(read) else ""
        if kind == "local" and after == "function":
            scopes[-1].add(read[at + 2][1])
            at += 2  # at the name; its parameters follow
            parameters, at = names_from(at + 2)
            scopes.append(set(parameters))
        elif kind == "local":
            declared, at = names_from(at + 1)
            scopes[-1].update(declared)
            continue
        elif kind == "function":
            while read[at][1] != "(":
                at += 1
            parameters, at = names_from(at + 1)
            scopes.append(set(parameters))
        elif kind == "for":
            declared, at = names_from(at + 1)
            pending = set(declared)
            continue
        elif kind in ("do", "then", "repeat"):
            scopes.append(pending if kind == "do" else set())
            pending = set() if kind == "do" else pending
        elif kind in ("else", "elseif"):
            scopes.pop()
            if kind == "else":
                scopes.append(set())
        elif kind in ("end", "until"):
            scopes.pop()
        elif kind == "name" and before not in (".", ":"):
            is_field = after == "=" and before in ("{", ",", ";") and _in_table(read, at)
            if not is_field and not any(said in scope for scope in scopes):
                free.setdefault(said, line)
        at += 1
    assert len(scopes) == 1, "blocks that are not closed, or closed twice"
    return free


def _in_table(read: list[tuple[str, str, int]], at: int) -> bool:
    """The innermost open bracket before this token is a brace."""
    depth = 0
    for _, said, _ in reversed(read[:at]):
        if said in ("}", ")", "]"):
            depth += 1
        elif said in ("{", "(", "["):
            if depth == 0:
                return said == "{"
            depth -= 1
    return False
