"""What `lock.local` is: where a lock object remembers what was taken with it, and by whom.

# Invariants:
# - what was taken before a fork is not found in the child;
# - it is forgotten once the server has said that it is given back, or not ours. Not before: it could never be given
#   back otherwise.
"""

import threading
from typing import Any, NamedTuple

from holdtight.base.process import current
from holdtight.base.values import Owner

__all__ = ["Held", "PerThread", "Shared", "Unanswered"]


class Unanswered(NamedTuple):
    """A request that may still arrive: until when, and on which expiry it would act (both in the server's ms)."""

    limit: int
    known: int | None


class Held:
    """What one acquire took."""

    # One is made for every acquisition: what is rarely otherwise stands here.
    late = 0.0
    """Until when (boottime) an unanswered request for it may still arrive, and take it again."""
    giving = False
    """A release went unanswered: it may be given back already."""
    unique = True
    """Made here, for this one acquisition. What a caller chose may be somebody else's as well."""
    cover: Owner | None = None
    """What the last release put in its place to give it back, if it is not unique."""
    by = 0
    """The thread that took it, where several share what is held."""
    covered = False
    """The server has said that this cover stands there."""
    expiry: int | None = None
    """When the server ends it, in the server's ms, -1 for never; None if that must be asked for."""
    open: "list[Unanswered] | tuple[()]" = ()
    """Requests for it that had no answer, and may still arrive."""

    def __init__(self, owner: Owner, until: float | None) -> None:
        self.owner = owner
        self.until = until
        """When it ends by our clock, at the earliest; None if that is not known."""
        self.epoch = current.epoch

    def note(self, unanswered: Unanswered) -> None:
        if self.open:
            self.open.append(unanswered)
        else:
            self.open = [unanswered]

    def answered(self, by: Unanswered, now: int) -> None:
        """Forgets it, and whatever else cannot arrive any more. `now` is in the server's ms."""
        self.open = [each for each in self.open if each is not by and each.limit >= now]

    @property
    def last_arrival(self) -> int:
        """Until when something may still arrive, in the server's ms."""
        return max((each.limit for each in self.open), default=0)

    @classmethod
    def chosen(cls, text: bytes, until: float | None = None) -> "Held":
        """Under a text of the caller's own."""
        held = cls(text, until)
        held.unique = False
        return held


class Shared:
    """`thread_local=False`: one for all who use the lock object."""

    def __init__(self) -> None:
        self._held: dict[Any, Held] = {}

    def asker(self) -> Any:
        """Who asks: what `find` and `keep` are told."""
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
        """This process was forked from one that holds it."""
        return any(held.epoch != current.epoch for held in list(self._held.values()))

    @property
    def token(self) -> bytes | None:
        """As redis-py has it: the value under the key if the lock is held here, else None. It can be set, too."""
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
        """Stands for the thread. Its number would not do: numbers are used again."""


_threads = _Threads()


class PerThread(Shared):
    """`thread_local=True` in blocking code: each thread sees what it took itself."""

    def asker(self) -> Any:
        return _threads.me

    def keep(self, held: Held, who: Any) -> None:
        self._held[who] = held
