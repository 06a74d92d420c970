"""Requests about the history of the lock service: a stream of what happened, and counts for each minute.

`ns:history` keeps about MOST events; `ns:stats:<minute>` is a hash of counters that stays for three hours.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from holdtight.base.plan import Step
from holdtight.stores.redis.resp import command, fields_of
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["History"]

MOST = 20_000
KEPT_SECONDS = 3 * 3600
HISTORY_SECONDS = 7 * 24 * 3600

Event = dict[str, Any]


class History:
    def __init__(self, namespace: str) -> None:
        self._stream = f"{namespace}:history".encode()
        self._stats = f"{namespace}:stats:".encode()

    def add_steps(self, events: Sequence[Event], counts: dict[int, dict[str, int]]) -> list[Step]:
        steps = [
            _step(command("XADD", self._stream, "MAXLEN", "~", MOST, "*", "e", json.dumps(each, ensure_ascii=False)))
            for each in events
        ]
        if events:
            steps.append(_step(command("EXPIRE", self._stream, HISTORY_SECONDS)))
        for minute, fields in counts.items():
            key = self._stats + b"%d" % minute
            steps += [_step(command("HINCRBY", key, field, number)) for field, number in fields.items()]
            steps.append(_step(command("EXPIRE", key, KEPT_SECONDS)))
        return steps

    def read_step(self, after: str, most: int) -> Step:
        """Events behind the id `after`, oldest first, each with its id."""
        return _step(command("XRANGE", self._stream, f"({after}", "+", "COUNT", most), _read)

    def last_step(self, most: int) -> Step:
        """The last events, newest first."""
        return _step(command("XREVRANGE", self._stream, "+", "-", "COUNT", most), _read)

    def stats_step(self, minute: int) -> Step:
        def read(reply: Any, sent: float) -> dict[str, int]:
            return {name.decode(): int(number) for name, number in fields_of(reply).items()}

        return _step(command("HGETALL", self._stats + b"%d" % minute), read)


def _read(reply: Any, sent: float) -> list[tuple[str, Event]]:
    found: list[tuple[str, Event]] = []
    for id_, fields in reply:
        try:
            found.append((id_.decode(), json.loads(fields[1])))
        except (ValueError, IndexError):
            found.append((id_.decode(), {}))  # of another version
    return found


def _plain(reply: Any, sent: float) -> Any:
    return reply


def _step(request: bytes, read: Callable[[Any, float], Any] = _plain) -> Step:
    return Step(request, None, read, patience=LONGEST_PATIENCE)
