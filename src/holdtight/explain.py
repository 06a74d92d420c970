"""The page about errors, offline: `holdtight.docs(code)`, and what `python -m holdtight explain` prints.

The page is docs/errors.md. A wheel has a copy of it in this folder; in the repository there is a link.
"""

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["codes", "docs", "table"]

_PAGE = Path(__file__).with_name("errors.md")
_SECTION = r"(?ms)^### ([A-Z_]+)\n.*?(?=^##|\Z)"
_ROW = r"(?m)^\| \[`([A-Z_]+)`\]\(#\w+\) \| `(\w+)`.*? \| (.+?) \| .+ \|$"


def docs(code: str) -> str:
    """Returns the section of docs/errors.md about the error with this `code`: cause, example, message, what to do.

    Reads a file that holdtight brings along. A code that no error has is a ValueError that lists the codes.

    Example:
        >>> print(docs("LOCK_TIMEOUT").splitlines()[0])
        ### LOCK_TIMEOUT
    """
    sections = {found[1]: found[0].rstrip() + "\n" for found in re.finditer(_SECTION, _text())}
    try:
        return sections[code.upper()]
    except KeyError:
        raise ValueError(f"no error has the code {code!r}; the codes are {', '.join(sections)}") from None


def codes() -> Mapping[str, tuple[str, str]]:
    """Every code with the name of its class and when that error is raised, in the order of the page."""
    return {code: (name, when) for code, name, when in re.findall(_ROW, _text())}


def table() -> str:
    """All codes, one a line."""
    return "".join(f"{each:<24} {name:<17} {when}\n" for each, (name, when) in codes().items())


def _text() -> str:
    return _PAGE.read_text("utf-8")
