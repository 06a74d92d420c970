"""The requests behind `acks`: how many replicas have received what this client wrote.

WAIT counts the replicas that have the last write of its own connection. Behind a request that changed nothing (a PING,
a read, a PEXPIRE of a missing key) it is vacuous: Valkey 9 answers at once, with replicas that have nothing of it. So a
write that always changes something goes before it: it sets the *mark*, a key of the namespace that means nothing. A
server that is out of memory refuses the SET, but not the PEXPIRE of a mark that is there.
"""

from typing import Any

from holdtight.base.plan import Acks, Step
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import command
from holdtight.stores.times import LOOK_SECONDS

__all__ = ["MARK_MS", "WaitForReplicas"]

MARK_MS = 60_000


class WaitForReplicas:
    """`needed`: how many replicas must acknowledge."""

    def __init__(self, namespace: str, needed: int) -> None:
        self.needed = needed
        self._namespace = namespace
        self._counting = 0.0, b""
        self._took = True
        """The server took the last mark."""

    def wish(self, name: str, seconds: float) -> Acks:
        """Waits for `seconds` at most, on the server that keeps `name`."""
        return Acks(self.needed, seconds, self._steps)

    def count_request(self, seconds: float) -> bytes:
        """Without a mark: for a connection whose last request has changed something."""
        known, packed = self._counting
        if seconds != known:
            packed = command("WAIT", self.needed, max(1, round(seconds * 1000)))  # 0 would be for ever
            self._counting = seconds, packed
        return packed

    def _steps(self, seconds: float) -> list[Step]:
        patience = seconds + LOOK_SECONDS
        mark = self._mark()
        marks = command("SET", mark, "", "PX", MARK_MS), command("PEXPIRE", mark, MARK_MS)
        steps = [Step(request, None, self._has_changed, patience=patience) for request in marks]
        return [*steps, Step(self.count_request(seconds), None, _count, patience=patience)]

    def _mark(self) -> bytes:
        return keys.mark(self._namespace)

    def _has_changed(self, reply: Any, sent: float) -> bool:
        changed = bool(reply)
        self._took = self._took or changed
        return changed


def _count(reply: Any, sent: float) -> int:
    return int(reply)
