"""A Ctrl-C at a chosen moment, which is any instruction of ours."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import holdtight

_OURS = str(Path(holdtight.__file__).parent)


def interrupted_at(moment: int, what: Callable[[], object], *, spared: frozenset[str] = frozenset()) -> str | None:
    """Runs it, with a KeyboardInterrupt after so many moments of our code at which Python handles signals. Says where
    that was; None if it came to its end before. The call of a function that is spared does not count."""
    left, where = moment, ""

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, where
        code = frame.f_code
        if not code.co_filename.startswith(_OURS) or (event == "call" and in_a_finalizer(frame)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not where and frame.f_lasti in moments(code, code.co_name in spared):
            if left == 0:
                where = f"{code.co_qualname}, line {frame.f_lineno}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt
            left -= 1
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        what()
    except KeyboardInterrupt:
        if not where:
            raise
    finally:
        sys.settrace(before)
    return where or None


def in_a_finalizer(frame: FrameType | None) -> bool:
    """What is raised there, Python drops."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@functools.cache
def moments(code: CodeType, but_not_the_first: bool) -> frozenset[int]:
    """The instructions that may raise what a signal handler does, or that come right after one that may have: calls,
    the beginning of a function, and jumps back. Not the call that ends a block: that of one with a lock of Python's
    lets go of it before it looks for signals, and one that is written in Python has its own beginning."""
    steps = list(dis.get_instructions(code))
    found = set[int]()
    for at, (step, after) in enumerate(itertools.pairwise(steps)):
        before = [each for each in steps[max(0, at - 5) : at] if each.opname not in ("CACHE", "PRECALL")][-3:]
        ends_a_block = len(before) == 3 and all(each.opname == "LOAD_CONST" and each.argval is None for each in before)
        if step.opname.startswith("CALL"):
            found |= {after.offset} if ends_a_block else {step.offset, after.offset}
        elif step.opname.startswith("JUMP_BACKWARD") or (step.opname == "RESUME" and not but_not_the_first):
            found.add(after.offset)
    return frozenset(found)
