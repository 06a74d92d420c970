"""`thread_local=True` in asyncio code: each task sees what it took itself.

All tasks of a loop share a thread, so that a value kept by thread would be everybody's: one task would give back what
another has taken. But code is not always run by the task that wrote it down: `asyncio.wait_for`, `shield` and `gather`
run what they are given in tasks of their own. So it counts who *calls* `acquire()` or `release()`, not who awaits what
they return; and each caller finds, in this order,

1. what it took itself;
2. what was taken by a task that it comes from: `shield(tidy_up())`, where `tidy_up` releases;
3. what a task that has ended left behind: `wait_for(enter(), 5)`, where `enter` acquires. If there is one such; of
   several it cannot be said whose they are.
"""

import asyncio
import weakref
from contextvars import ContextVar
from typing import Any, NamedTuple

from holdtight.base.process import current
from holdtight.compat.local import Held, Shared

__all__ = ["PerTask"]

Task = asyncio.Task[Any]
MOST_LEFT_BEHIND = 2

_comes_from: "ContextVar[tuple[weakref.ref[Task], ...]]" = ContextVar("holdtight_compat_comes_from", default=())
"""Tasks that have asked for something: last this one, before it those it was started from. Children are born with a
copy."""


class _Taken(NamedTuple):
    held: Held
    by: "weakref.ref[Task] | None"

    def by_task(self) -> Task | None:
        return None if self.by is None else self.by()

    @property
    def left_behind(self) -> bool:
        task = self.by_task()
        return task is None or task.done()


class PerTask(Shared):
    def __init__(self) -> None:
        super().__init__()
        self._taken: list[_Taken] = []
        """Changed in steps that other threads' loops cannot see half of."""

    def asker(self) -> Task | None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return None  # no loop runs here
        if task is not None:
            line = _comes_from.get()
            if not line or line[-1]() is not task:
                alive = [each for each in line if (found := each()) is not None and not found.done()]
                _comes_from.set((*alive, weakref.ref(task)))
        return task

    def find(self, who: Task | None) -> Held | None:
        taken = [each for each in list(self._taken) if each.held.epoch == current.epoch]
        if not taken:
            return None
        if who is not None:
            for each in taken:
                if each.by_task() is who:
                    return each.held
            forebears = [found for each in _comes_from.get() if (found := each()) is not None]
            for each in reversed(taken):
                if not each.left_behind and each.by_task() in forebears:
                    return each.held
        left_behind = [each for each in taken if each.left_behind]
        return left_behind[0].held if len(left_behind) == 1 else None

    def keep(self, held: Held, who: Task | None) -> None:
        earlier = list(self._taken)
        self._taken.append(_Taken(held, None if who is None else weakref.ref(who)))
        left_behind = [each for each in earlier if each.left_behind]
        # Set by hand from outside of any task, it is what is meant from now on.
        too_many = left_behind[:-MOST_LEFT_BEHIND] if who is not None else left_behind
        for each in earlier:
            if each in too_many or (who is not None and each.by_task() is who):
                self._forget(each)

    def drop(self, held: Held) -> None:
        for each in list(self._taken):
            if each.held is held:
                self._forget(each)

    def _forget(self, taken: _Taken) -> None:
        try:
            self._taken.remove(taken)
        except ValueError:
            pass  # another thread's loop was quicker

    @property
    def inherited(self) -> bool:
        return any(each.held.epoch != current.epoch for each in list(self._taken))
