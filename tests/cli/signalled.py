"""`holdtight WORD…` that sends a signal to itself: `signalled.py AT WORD…`, at the AT-th moment of the command line's
own code. With AT = 0 it sends none, and prints the number of moments on stderr."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from holdtight.cli import main, run, running

OURS = tuple(str(Path(str(module.__file__))) for module in (run, running))


def play(at: int) -> None:
    me, moments = os.getpid(), 0

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal moments
        if frame.f_code.co_filename not in OURS or os.getpid() != me:
            return None
        if event == "line":
            moments += 1
            if moments == at:
                os.kill(me, signal.SIGTERM)
        return look

    sys.settrace(look)
    try:
        main()
    finally:
        sys.settrace(None)
        if not at:
            print(f"moments: {moments}", file=sys.stderr)


if __name__ == "__main__":
    play(int(sys.argv.pop(1)))
