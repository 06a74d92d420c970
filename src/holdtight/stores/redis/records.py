"""Requests about the records of `once`: that a run has started, and how it ended."""

import json
from typing import Any, NamedTuple

from holdtight.base.plan import Step
from holdtight.base.values import Late, LossReason, Owner, owner_text
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.client_records import read_record
from holdtight.stores.redis.fields import cut
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE, TAIL_MS

__all__ = ["BEGIN", "END", "Record", "Records", "Seen"]

BEGIN = Script("once_begin")
END = Script("once_end")


class _End(Step):
    """May be an undo."""

    __slots__ = ("until",)


class Record(NamedTuple):
    """The content of a record, and for how many seconds it still counts."""

    state: str
    """r: may run, d: returned, f: raised."""
    owner: str
    fence: int
    started: float
    ended: float
    about: dict[str, Any]
    left: float = 0.0


class Seen(NamedTuple):
    record: Record | None
    holder: str | None
    """The owner that holds the lock exclusively; None if there is none."""


class Records:
    """The records of one name: one, or one for each occurrence."""

    def __init__(self, client: Client, name: str, occurrence: str) -> None:
        BEGIN.fetch()
        END.fetch()
        self._client = client
        self._main = keys.main_key(client.namespace, name)
        self._key = keys.record(self._main, occurrence)
        asked = (("MGET", self._main, self._key), ("PTTL", self._main), ("PTTL", self._key))
        self.looks = [command(*each) for each in asked]
        """Requests for one write; `read_look` makes the outcome of the replies."""

    def look_steps(self) -> list[Step]:
        """For a Batch. `read_look` makes the outcome of the replies."""
        return [Step(each, None, lambda reply, sent: reply, patience=LONGEST_PATIENCE) for each in self.looks]

    @staticmethod
    def read_look(replies: list[Any]) -> Seen:
        (main, value), main_left, left = replies
        holder = None
        if main and cut("KIND_OF", main) == b"x1" and main_left > TAIL_MS:
            holder = owner_text(cut("OWNER_OF", main))
        return Seen(read_run(value, left), holder)

    def begin_step(self, owner: Owner, *, keep: float, every_start: bool, about: dict[str, Any], now: float) -> Step:
        """Writes the record. The answer is None if it is written, a Record that stands in the way, the reason why the
        lock is not ours, or Late."""
        limit = int((self._client.server_time(now) + LONGEST_PATIENCE) * 1e6)
        request = BEGIN.request(
            (self._main, self._key), owner, max(1, round(keep * 1000)), int(every_start), json.dumps(about), limit
        )
        return Step(request, None, self._read_begin, patience=LONGEST_PATIENCE, script=BEGIN)

    def _read_begin(self, reply: Any, sent: float) -> "Record | LossReason | Late | None":
        match reply:
            case [1, _]:
                return None
            case [0, holder]:
                return LossReason.TAKEN if holder else LossReason.EXPIRED
            case [2, value, left]:
                found = read_run(value, left)
                assert found is not None
                return found
            case _:
                self._client.learn(reply[1] / 1000, sent)
                return Late()

    def end_step(self, owner: Owner, state: str, about: dict[str, Any]) -> Step:
        """`state` is d or f."""
        return self._end(owner, state, about, undo=False)

    def undo_step(self, owner: Owner, state: str, about: dict[str, Any], until: float) -> Step:
        """The same, and '' takes the record back. The keeper sends it if it has to, also again until `until`, when the
        request that wrote the record can arrive no more."""
        step = self._end(owner, state, about, undo=True)
        step.until = until
        return step

    def _end(self, owner: Owner, state: str, about: dict[str, Any], *, undo: bool) -> _End:
        request = END.request((self._key,), owner, state, json.dumps(about))
        return _End(request, None, lambda reply, sent: reply == 1, patience=LONGEST_PATIENCE, undo=undo, script=END)

    def forget_step(self) -> Step:
        return Step(command("DEL", self._key), None, lambda reply, sent: bool(reply), patience=LONGEST_PATIENCE)


def read_run(value: bytes | None, left: int) -> Record | None:
    """None if there is no record, or another program's."""
    if not value or cut("KIND_OF", value) != b"o1" or len(value) < 75:
        return None
    return Record(
        cut("RUN_STATE_OF", value).decode(),
        owner_text(cut("RUN_OWNER_OF", value)),
        int(cut("RUN_FENCE_OF", value)),
        int(cut("RUN_STARTED_OF", value)) / 1e6,
        int(cut("RUN_ENDED_OF", value)) / 1e6,
        read_record(cut("RUN_ABOUT_OF", value)),
        max(0, left) / 1000,
    )
