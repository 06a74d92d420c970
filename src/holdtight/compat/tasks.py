"""`thread_local=True` in asyncio code: each task sees its own grants.

All tasks of a loop share a thread, so a value per thread would belong to all of them: one task would release the lock
of another. But `asyncio.wait_for`, `shield` and `gather` run the coroutines that they are given in new tasks. So the
task that *calls* `acquire()` or `release()` counts, not the task that awaits the result. Each caller finds, in this
order,

1. its own grant;
2. a grant of a task that it descends from: `shield(tidy_up())`, where `tidy_up` releases;
3. the grant of a task that has ended: `wait_for(enter(), 5)`, where `enter` acquires. Only if there is exactly one: of
   several it is unknown which one is meant.
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
"""Tasks that have used a lock: first the ancestors of the current task, then the task itself. Child tasks inherit a
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
        """Changed only by atomic operations: loops in other threads use it too."""

    def asker(self) -> Task | None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return None  # no loop runs in this thread
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
        # A token that is set outside of any task replaces all grants of ended tasks.
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
            pass  # a loop in another thread has removed it

    @property
    def inherited(self) -> bool:
        return any(each.held.epoch != current.epoch for each in list(self._taken))
