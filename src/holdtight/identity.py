"""Who is asking: the running asyncio task if a loop runs in this thread, else the thread.

Neither ids, which are reused, nor context variables, which child tasks inherit, can say that. Each identity
remembers the leases that it holds in `with` blocks (in order), and its re-entrant grants.

# Invariants:
# - a task is in `_tasks` only while its identity remembers something;
# - grants are remembered as tenures, blocks as leases: only a block keeps a lease alive.
"""

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdtight.tenure import Tenure

__all__ = ["Identity", "Key", "identity", "task_identity"]

MOST_SPARE = 4096
LONGEST_DISPLAY = 60

Key = tuple[object, str]
"""The client and the lock's name."""


class Identity:
    __slots__ = ("_shared", "grants", "stack", "task")

    def __init__(self, task: Any = None) -> None:
        self.task = task
        self._shared = False
        """Leases know it, so that it cannot be used for another task."""
        self.stack: list[tuple[Key, Any]] = []
        """(key, lease) of every `with` block that is open, innermost last."""
        self.grants: dict[Key, Tenure] = {}
        """Re-entrant grants that further entries share."""

    @property
    def what(self) -> str:
        return "thread" if self.task is None else "task"

    def display(self) -> str:
        """For people; of a thread, only in that thread."""
        name = threading.current_thread().name if self.task is None else str(self.task.get_name())
        return f"{self.what} {' '.join(name.split())[:LONGEST_DISPLAY]}"

    def enter_block(self, key: Key, lease: Any) -> None:
        self.stack.append((key, lease))
        if self.task is not None:
            _tasks[self.task] = self

    def leave_block(self, key: Key) -> Any:
        """The lease of the innermost open block on this key, which ends here."""
        stack = self.stack
        if stack and stack[-1][0] is key:
            lease = stack.pop()[1]
            if not stack:
                self._tidy()
            return lease
        for at in range(len(stack) - 1, -1, -1):
            if stack[at][0] == key:
                lease = stack.pop(at)[1]
                self._tidy()
                return lease
        raise RuntimeError(
            f"the block on {key[1]!r} was left in another thread or task than it was entered in: use hold() for that"
        )

    def remember(self, key: Key, tenure: "Tenure") -> None:
        self._shared = True
        self.grants[key] = tenure
        task = self.task
        if task is not None:
            _tasks[task] = self
            task.add_done_callback(_forget)

    def forget(self, key: Key) -> None:
        self.grants.pop(key, None)
        self._tidy()

    def _tidy(self) -> None:
        if self.task is not None and not self.stack and not self.grants:
            _tasks.pop(self.task, None)
            if not self._shared and len(_spare) < MOST_SPARE:
                self.task = None
                _spare.append(self)


class _Threads(threading.local):
    def __init__(self) -> None:
        self.identity = Identity()


_threads = _Threads()
_tasks: dict[Any, Identity] = {}
_spare: list[Identity] = []
"""Identities of tasks that remember nothing any more, for the next: making one anew for every block costs the
collector more than it looks."""


def _forget(task: Any) -> None:
    _tasks.pop(task, None)


def task_identity(task: Any) -> Identity:
    """For asyncio code, which knows its task."""
    found = _tasks.get(task)
    if found is not None:
        return found
    try:
        found = _spare.pop()
    except IndexError:
        return Identity(task)
    found.task = task
    return found


def identity() -> Identity:
    events = sys.modules.get("asyncio.events")
    if events is not None and events._get_running_loop() is not None:
        task = sys.modules["asyncio.tasks"].current_task()
        if task is not None:
            return task_identity(task)
    return _threads.identity
