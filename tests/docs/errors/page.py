"""docs/errors.md, taken apart: each `###` heading with its code, its messages and what it says an error carries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "errors.md").read_text()

_HEADING = re.compile(r"^(#+) (.+)$", flags=re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    line: int

    @property
    def code(self) -> str:
        """Its Python code, after enough empty lines that tracebacks show the line numbers of the page."""
        (found,) = (block for block in _BLOCK.finditer(self.text) if block[1] == "python")
        return "\n" * (self.line + self.text.count("\n", 0, found.start(2))) + found[2]

    @property
    def messages(self) -> list[str]:
        return [block[2] for block in _BLOCK.finditer(self.text) if not block[1]]

    @property
    def carried(self) -> list[str]:
        """The attributes that it names."""
        (line,) = re.findall(r"\*\*Carries\*\* (.*?)(?:\n\n|\Z)", self.text, flags=re.DOTALL)
        return re.findall(r"`(\w+)`", line)


def _sections() -> dict[str, Section]:
    blocks = [block.span() for block in _BLOCK.finditer(TEXT)]
    headings = [
        heading
        for heading in _HEADING.finditer(TEXT)
        if not any(start < heading.start() < end for start, end in blocks)  # a comment in code
    ]
    ends = [*(heading.start() for heading in headings[1:]), len(TEXT)]
    return {
        heading[2]: Section(heading[2], TEXT[heading.end() : end], TEXT.count("\n", 0, heading.end()))
        for heading, end in zip(headings, ends, strict=True)
    }


SECTIONS = _sections()
CODES = {title: section for title, section in SECTIONS.items() if re.fullmatch("[A-Z_]+", title)}


def anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


ANCHORS = {anchor(title) for title in SECTIONS}

_VOLATILE = (
    (r"\bredis://[\w.]+:\d+/", "redis://…/"),
    (r"[\w.-]+, pid \d+", "…, pid …"),
    (r"\b\d+(\.\d+)?(e-\d+)? m?s\b", "… s"),
    (r"\bfence \d+ is stale, \d+ ", "fence … is stale, … "),
    (r"\(fence \d+\)", "(fence …)"),
    (r"\bthread [\w-]+( \(\w+\))?", "thread …"),
    (r"\s+", " "),
)


def normal(message: str) -> str:
    """Removes what differs from run to run: addresses, hosts, pids, fences, times, and line breaks."""
    for pattern, shown in _VOLATILE:
        message = re.sub(pattern, shown, message)
    return message.strip()
