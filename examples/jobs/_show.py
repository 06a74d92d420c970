"""Plays a scene without holdtight's job and with it. The servers and processes are those of the ladder."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "ladder"))

from _stage import Actor, Stage, tell, wait_for

__all__ = ["Actor", "Stage", "show", "tell", "wait_for"]


def show(story: str | None, scene: Callable[[Stage, Any], bool], *, without: Any, with_it: Any) -> None:
    """The scene returns True if harm was done. Ends the program: with 0 only if it was, and was not with the job."""
    print((story or "").strip())
    seen: list[bool] = []
    for where, props in (("Without", without), ("With", with_it)):
        print(f"\n{where}:", flush=True)
        with Stage(1) as stage:
            seen.append(scene(stage, props))
    answers = ["yes" if harm else "no" for harm in seen]
    print(f"\nThe failure without: {answers[0]}. With: {answers[1]}.")
    sys.exit(0 if answers == ["yes", "no"] else 1)
