"""A Ctrl-C at a chosen moment, which is any instruction of ours."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import holdtight

_OURS = str(Path(holdtight.__file__).parent)


Moment = tuple[str, int, int]
"""A function, one of its instructions, and how often that has run before: a test need not run loops to their end."""
TIMES = 2


class Moments:
    """The moments that have not been interrupted yet: all, or each `one_of`-th in the order in which the runs meet
    them. The salt decides which is the first, so that several uses together interrupt most of what they share."""

    def __init__(self, one_of: int = 1, salt: str = "") -> None:
        self._one_of = one_of
        self._first = zlib.crc32(salt.encode()) % one_of
        self._seen = set[Moment]()

    def take(self, moment: Moment) -> bool:
        """True if a run must be interrupted at this moment; no later run is interrupted there."""
        if moment in self._seen:
            return False
        self._seen.add(moment)
        return len(self._seen) % self._one_of == self._first


def interrupted_at(moments: Moments, what: Callable[[], object], *, spared: frozenset[str] = frozenset()) -> str | None:
    """Runs `what` with a KeyboardInterrupt at the first moment of our code that `moments` wants, of those at which
    Python handles signals. Returns where that was; None if `what` ended without an interrupt. Calls of `spared`
    functions do not count. A moment is identified by its place in the code: which one is the hundredth differs from
    run to run."""
    where = ""
    times = Counter[tuple[str, int]]()

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal where
        code = frame.f_code
        if not code.co_filename.startswith(_OURS) or (event == "call" and in_a_finalizer(frame)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not where and frame.f_lasti in moments_of(code, code.co_name in spared):
            place = (code.co_qualname, frame.f_lasti)
            times[place] += 1
            moment = (*place, min(times[place], TIMES))
            if moments.take(moment):
                where = f"{code.co_qualname}, line {frame.f_lineno}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt
        return look

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks only here whether to trace instructions
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
    """Python drops an exception that is raised in a finalizer."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@functools.cache
def moments_of(code: CodeType, but_not_the_first: bool) -> frozenset[int]:
    """The instructions at which Python runs signal handlers, and those right after them: calls, the beginning of a
    function, and backward jumps."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("PRECALL", "CACHE")]
    found = set[int]()
    for at, (step, after) in enumerate(itertools.pairwise(steps)):
        if step.opname.startswith("CALL") and "INTRINSIC" not in step.opname:
            if not ends_a_block(steps[max(0, at - 3) : at]):
                found.add(step.offset)
            # A signal that came during the call is handled as part of it, by the handler of the call's own errors.
            if handler(code, step.offset) == handler(code, after.offset):
                found.add(after.offset)
        elif step.opname.startswith("JUMP_BACKWARD"):
            found.add(step.offset)
        elif step.opname == "RESUME" and not but_not_the_first:
            found.add(after.offset)
    return frozenset(found)


def ends_a_block(before: list[dis.Instruction]) -> bool:
    """Whether the next instruction is the call that ends a `with` block. Python handles no signal between the last step
    of the body, which belongs to the block, and that call; otherwise no lock would be safe."""
    return len(before) == 3 and all(step.opname == "LOAD_CONST" and step.argval is None for step in before)


def handler(code: CodeType, offset: int) -> int:
    """Where Python goes on if this instruction raises; 0 if that leaves the function."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in entries if entry.start <= offset < entry.end), 0)
