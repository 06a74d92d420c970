"""The keeper's deferred undo of a signing that was interrupted."""

from typing import Any

import hiredis

from holdtight.base.values import Owner
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Place
from holdtight.stores.redis.plain_store import LATE, NOT_OURS, Plain, Told

__all__ = ["Unsigning"]


class Unsigning(DeferredUndo):
    """Releases a lock whose value is its owner or, if the signing succeeded, the caller's text.

    Like a release, it replaces the text by a cover, and deletes the cover when none of its earlier requests can arrive
    any more. `left`: seconds for which the lock is certainly ours. After that, another caller may hold it under the
    same text. `undo` deletes the owner, for attempts that may still arrive and acquire the lock again; it follows.
    """

    def __init__(
        self, place: Place, plain: Plain, owner: Owner, text: bytes, left: float, undo: DeferredUndo | None
    ) -> None:
        self._plain = plain
        self._words = (owner, text, plain.client.owner())
        self._undo = undo
        self._asked = 0
        """The arrival limit of the current request, in the server's ms; 0 once it is answered."""
        self._last_arrival = 0
        """The latest arrival limit of earlier requests that got no answer."""
        super().__init__(place, self._next())
        self.deadline = place.clock() + min(left, plain.undo_step(owner).persistence)

    def _next(self) -> Any:
        return self._plain.unsign_step(*self._words, None)

    def request(self, now: float) -> bytes | None:
        if not self.alive:
            return None
        self._last_arrival = max(self._last_arrival, self._asked)
        self._step = self._next()
        self._asked = self._step.limit
        return self._step.packed(b"")

    def answered(self, reply: Any, sent: float) -> bool:
        self._asked = 0
        if isinstance(reply, hiredis.ReplyError):
            return False
        told: Told = self._step.read(reply, sent)
        if told.word == LATE:
            self._plain.client.learn(told.now / 1000, sent)
            return False
        self.overdue()
        if told.word != NOT_OURS:
            keeper = self.place.runtime.keeper
            wait = max(0, self._last_arrival - told.now) / 1000 if told.now else 0.0
            give = DeferredUndo(self.place, self._plain.undo_step(self._words[2]))
            keeper.at(self.place.clock() + wait, lambda _: keeper.ask(give))
        return True

    def overdue(self) -> None:
        super().overdue()
        if self._undo is not None:
            self.place.runtime.keeper.ask(self._undo)
