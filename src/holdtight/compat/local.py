"""The classes of `lock.local`, which remembers the grants of a lock object and their takers.

Invariants:
- a forked child does not find grants from before the fork;
- a grant is forgotten only after the server has said that it is released, or not ours. Otherwise it could never be
  released.
"""

import threading
from typing import Any, NamedTuple

from holdtight.base.process import current
from holdtight.base.values import Owner

__all__ = ["Held", "PerThread", "Shared", "Unanswered"]


class Unanswered(NamedTuple):
    """A request that may still arrive: its arrival limit, and the expiry it would act on (both in the server's ms)."""

    limit: int
    known: int | None


class Held:
    """The grant of one `acquire()`."""

    # Every acquisition makes one: attributes that rarely change are class attributes.
    late = 0.0
    """The time (boottime) until which an unanswered attempt may still arrive, and acquire the lock again."""
    giving = False
    """True after an unanswered release: the lock may be released already."""
    unique = True
    """True if the owner was made for this one acquisition. Other callers may use a text that the caller chose."""
    cover: Owner | None = None
    """The value by which the last release replaced the text, if the owner is not unique."""
    by = 0
    """The thread that acquired it, where threads share the grant."""
    covered = False
    """True once the server has confirmed the cover."""
    expiry: int | None = None
    """The expiry in the server's ms, -1 for never; None if unknown."""
    unanswered: "list[Unanswered] | tuple[()]" = ()
    """Requests for it that have no answer and may still arrive."""

    def __init__(self, owner: Owner, until: float | None) -> None:
        self.owner = owner
        self.until = until
        """Its earliest end on our clock; None if unknown."""
        self.epoch = current.epoch

    def note(self, unanswered: Unanswered) -> None:
        if self.unanswered:
            self.unanswered.append(unanswered)
        else:
            self.unanswered = [unanswered]

    def answered(self, by: Unanswered, now: int) -> None:
        """Drops this request, and all others that can no longer arrive. `now` is in the server's ms."""
        self.unanswered = [each for each in self.unanswered if each is not by and each.limit >= now]

    @property
    def last_arrival(self) -> int:
        """The latest arrival limit of all open requests, in the server's ms."""
        return max((each.limit for each in self.unanswered), default=0)

    @classmethod
    def chosen(cls, text: bytes, until: float | None = None) -> "Held":
        """A grant whose value is a text that the caller chose."""
        held = cls(text, until)
        held.unique = False
        return held


class Shared:
    """`thread_local=False`: all users of the lock object share one grant."""

    def __init__(self) -> None:
        self._held: dict[Any, Held] = {}

    def asker(self) -> Any:
        """Identifies the caller, for `find` and `keep`."""
        return None

    def find(self, who: Any) -> Held | None:
        held = self._held.get(who)
        return held if held is not None and held.epoch == current.epoch else None

    def keep(self, held: Held, who: Any) -> None:
        held.by = threading.get_ident()
        self._held[who] = held

    def drop(self, held: Held) -> None:
        mine = self.asker()
        if self._held.get(mine) is held:
            self._held.pop(mine, None)
            return
        for who, each in list(self._held.items()):
            if each is held:
                self._held.pop(who, None)

    @property
    def inherited(self) -> bool:
        """True if this process was forked from one that held it."""
        return any(held.epoch != current.epoch for held in list(self._held.values()))

    @property
    def token(self) -> bytes | None:
        """As in redis-py: the value of the key if the caller holds the lock, else None. It can be set, too."""
        held = self.find(self.asker())
        return None if held is None else held.owner

    @token.setter
    def token(self, value: bytes | str | None) -> None:
        who = self.asker()
        if value is not None:
            self.keep(Held.chosen(value.encode() if isinstance(value, str) else bytes(value)), who)
        elif (held := self.find(who)) is not None:
            self.drop(held)


class _Threads(threading.local):
    def __init__(self) -> None:
        self.me = object()
        """Identifies the thread. Its number would not do: the system reuses numbers."""


_threads = _Threads()


class PerThread(Shared):
    """`thread_local=True` in blocking code: each thread sees its own grant."""

    def asker(self) -> Any:
        return _threads.me

    def keep(self, held: Held, who: Any) -> None:
        self._held[who] = held
