"""The identity of a caller: the running asyncio task if a loop runs in this thread, else the thread.

Ids are reused and context variables are inherited by child tasks, so neither can serve. Each identity
remembers the leases that it holds in `with` blocks (in order), and its re-entrant grants.

Invariants:
- a task is in `_tasks` only while its identity remembers something;
- grants are remembered as tenures, blocks as leases: only a block keeps a lease alive.
"""

import itertools
import sys
import threading
import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

__all__ = [
    "Identity",
    "Key",
    "OwnKey",
    "blocks_around",
    "blocks_of",
    "current_work",
    "identity",
    "is_of",
    "may_block",
    "running_loop",
    "task_identity",
    "tasks_inside",
]

MOST_SPARE = 4096
LONGEST_DISPLAY = 60

Key = tuple[object, str]
"""The client and the lock's name."""


class OwnKey(tuple[object, str]):
    """The key of a `with lease` block. It equals the lock's key, so that the block counts as a block on that lock. It
    is compared by identity when the block ends, so that only this lease can leave it."""

    __slots__ = ()


def is_of(entered: Key, key: Key) -> bool:
    """Whether the end of a block with `key` may leave the block that was entered with `entered`."""
    return entered is key or (type(entered) is type(key) is tuple and entered == key)


class Identity:
    __slots__ = ("_shared", "asks", "grants", "sleeper", "stack", "task")

    def __init__(self, task: Any = None) -> None:
        self.task = task
        self.asks: Any = None
        """The owner of the latest acquisition of blocking code. After an interrupt the lock withdraws it."""
        self._shared = False
        """Leases refer to this identity, so it must not be reused for another task."""
        self.stack: list[tuple[Key, Any]] = []
        """(key, lease) of every open `with` block, innermost last."""
        self.grants: dict[Key, Any] = {}
        """Tenures of re-entrant grants that further entries share."""
        self.sleeper: Any = None
        """What the thread last slept with in the local line of a cohort, and whose runtime's that is."""

    @property
    def what(self) -> str:
        return "thread" if self.task is None else "task"

    @property
    def mark(self) -> object:
        """Equal only for the same thread or task. Keeps nothing alive. A thread's mark must be read in that thread."""
        return _threads.number if self.task is None else weakref.ref(self.task)

    def display(self) -> str:
        """The name shown in messages; a thread's must be read in that thread."""
        name = threading.current_thread().name if self.task is None else str(self.task.get_name())
        return f"{self.what} {' '.join(name.split())[:LONGEST_DISPLAY]}"

    def enter_block(self, key: Key, lease: Any) -> None:
        self.stack.append((key, lease))
        if self.task is not None:
            _tasks[self.task] = self

    def leave_block(self, key: Key) -> Any:
        """Removes the innermost open block on this key and returns its lease."""
        stack = self.stack
        if stack and stack[-1][0] is key:
            lease = stack.pop()[1]
        else:
            lease = stack.pop(self._innermost(key))[1]
        if not stack:
            self._tidy()
        return lease

    def lease_of(self, key: Key) -> Any:
        """The lease of the innermost open block on this key."""
        return self.stack[self._innermost(key)][1]

    def _innermost(self, key: Key) -> int:
        for at in range(len(self.stack) - 1, -1, -1):
            if is_of(self.stack[at][0], key):
                return at
        raise RuntimeError(
            f"the block on {key[1]!r} was left in another thread or task than it was entered in: use hold() for that"
        )

    def end_blocks(self) -> list[Any]:
        """Removes and returns the leases of a task that ended inside its blocks: no code can leave those any more."""
        left = [lease for _, lease in self.stack]
        self.stack.clear()
        self._tidy()
        return left

    # An interrupt (Ctrl-C) may come between any two steps of entering or leaving a block. The interrupted code reports
    # what it knows, and every lease that the user may not have received is forsaken.

    def break_off(self, depth: int) -> None:
        """Entering blocks was interrupted: forsakes all blocks above `depth`, the number that were open before."""
        for _, lease in self.stack[depth:]:
            lease.forsake()
        del self.stack[depth:]
        self._tidy()

    def break_off_end(self, key: Key, lease: Any) -> None:
        """Leaving the innermost block on this key was interrupted. `lease` is None if its lease was not found yet."""
        if lease is None:
            lease = next((each for entered, each in reversed(self.stack) if is_of(entered, key)), None)
        if lease is not None:
            lease.forsake()
            gone = (lease, *getattr(lease, "parts", ()))
            self.stack[:] = [entry for entry in self.stack if not any(entry[1] is each for each in gone)]
            self._tidy()

    def remember(self, key: Key, tenure: Any) -> None:
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
        self.number = next(_numbers)
        self.end = _End(self.identity)


class _End:
    """Finalized when its thread ends. A block in a suspended generator may outlive the thread, but no code can leave
    that block any more: from then on its lease is watched."""

    __slots__ = ("_identity",)

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def __del__(self) -> None:
        if hasattr(self, "_identity"):  # an interrupt may come before it is set
            for _, lease in self._identity.stack:
                lease.watch()


_numbers = itertools.count(1)
_threads = _Threads()
_tasks: dict[Any, Identity] = {}
_spare: list[Identity] = []
"""Identities of tasks that no longer remember anything, for reuse: a new one for every block burdens the garbage
collector."""


def _forget(task: Any) -> None:
    _tasks.pop(task, None)


def tasks_inside(key: Key) -> list[Identity]:
    """The identities of all tasks that run, or ended, inside a block on this key."""
    return [each for each in list(_tasks.values()) if any(is_of(entered, key) for entered, _ in each.stack)]


def blocks_around(loop: Any) -> list[tuple[Identity, Key, Any]]:
    """All blocks that cannot end before this thread's event loop continues, each with its identity: the blocks of the
    loop's tasks and those of the thread itself."""
    inside = [_threads.identity]
    for each in list(_tasks.values()):
        task = each.task  # None if another loop has just put the identity into `_spare`
        if task is not None and not task.done() and task.get_loop() is loop:
            inside.append(each)
    return [(who, key, lease) for who in inside for key, lease in list(who.stack)]


def blocks_of(task: Any) -> "Sequence[tuple[Key, Any]]":
    """The open blocks of a task, innermost last; they change with it."""
    found = _tasks.get(task)
    return () if found is None else found.stack


current_work: ContextVar[Any] = ContextVar("holdtight_work", default=None)
"""What this code is part of and others wait for, such as a flight of `single_flight`. Its `blocks()` are those of all
who wait for it: while this code waits, they stay open too."""


def may_block(who: Identity) -> bool:
    """Whether others may have to wait while this caller waits, so that it may be part of a deadlock."""
    return bool(who.stack) or current_work.get() is not None


def running_loop() -> Any:
    """The event loop that runs in this thread, or None."""
    if _running_loop is None:
        identity()  # checks whether asyncio has been loaded
    return None if _running_loop is None else _running_loop()


def task_identity(task: Any) -> Identity:
    """The identity of a task, for asyncio code that knows its task."""
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
    if _running_loop is None:
        return _threads.identity if "asyncio.events" not in sys.modules else _with_asyncio()
    if _running_loop() is not None:
        task = sys.modules["asyncio.tasks"].current_task()
        if task is not None:
            return task_identity(task)
    return _threads.identity


_running_loop: Any = None


def _with_asyncio() -> Identity:
    """Looks up asyncio's function once asyncio is loaded."""
    global _running_loop
    _running_loop = getattr(sys.modules["asyncio.events"], "_get_running_loop", None)
    return _threads.identity if _running_loop is None else identity()  # None while asyncio is still being imported
