"""docs/pitfalls.md, taken apart: each `###` heading with its two blocks of code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "pitfalls.md"

_HEADING = re.compile(r"^### (.+)$", flags=re.MULTILINE)
_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    title: str
    tags: tuple[str, ...]
    """What stands behind ```python, block by block."""
    blocks: tuple[str, ...]
    """Each with as many empty lines before it as bring it to its place on the page, for tracebacks."""

    @property
    def slug(self) -> str:
        """As the scene is called that goes with it."""
        return "_".join(re.findall(r"[a-z0-9]+", self.title.lower()))

    @property
    def wrong(self) -> str:
        return self.blocks[self.tags.index("wrong")]

    @property
    def right(self) -> str:
        return self.blocks[self.tags.index("right")]


def read() -> list[Section]:
    text = PAGE.read_text()
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    sections: list[Section] = []
    for heading, end in zip(headings, ends, strict=True):
        found = list(_BLOCK.finditer(text, heading.end(), end))
        blocks = ("\n" * text.count("\n", 0, block.start(2)) + block[2] for block in found)
        sections.append(Section(heading[1], tuple(block[1].strip() for block in found), tuple(blocks)))
    return sections
