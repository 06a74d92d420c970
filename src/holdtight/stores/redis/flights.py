"""Requests about the values of `single_flight`, and about its failures and invalidations."""

from typing import Any, NamedTuple

from holdtight.base.plan import Step
from holdtight.base.values import Late, Owner
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.fields import FIELDS, cut
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["DROP", "LAND", "FlightValues", "Found"]

LAND = Script("flight_land")
DROP = Script("flight_drop")
_STALE = slice(FIELDS["STALE_OF"][0] - 1, FIELDS["STALE_OF"][1])


class Found(NamedTuple):
    """What is stored. `kind` is v for a value, n for an exception that is an answer, "" for nothing."""

    kind: str
    payload: bytes
    fresh: bool
    age: float
    failure: str | None
    """How the last flight failed, while that counts."""


class FlightValues:
    """The value of one name."""

    def __init__(self, client: Client, name: str) -> None:
        LAND.fetch()
        DROP.fetch()
        self._client = client
        self._main = keys.main_key(client.namespace, name)
        self._value, self._failure = keys.value(self._main), keys.failure(self._main)
        self.quick_look = (command("GET", self._value), command("PTTL", self._value))
        """Requests for one write that find a fresh value, as most looks do; `fresh` reads the replies. They cost the
        server less than those of `look_steps`, which say everything."""

    def look_steps(self) -> list[Step]:
        """For a Batch; `read_look` makes the outcome of the replies."""
        asked = (command("MGET", self._value, self._failure), self.quick_look[1])
        return [Step(each, None, _as_it_is, patience=LONGEST_PATIENCE) for each in asked]

    @staticmethod
    def fresh(replies: list[Any]) -> bytes | None:
        """The bytes of a value that is fresh; None for everything else."""
        value, left = replies
        if not value or value[:3] != b"v1v" or len(value) < 27 or left <= int(value[_STALE]):
            return None
        payload: bytes = value[27:]
        return payload

    @staticmethod
    def read_look(replies: list[Any]) -> Found:
        (value, mark), left = replies
        failure = mark[3:].decode(errors="replace") if mark and mark[:3] == b"e1f" else None
        if not value or value[:2] != b"v1" or len(value) < 27 or left < 0:
            return Found("", b"", False, 0.0, failure)
        fresh, stale = int(cut("FRESH_OF", value)), int(cut("STALE_OF", value))
        age = max(0, fresh + stale - left) / 1000
        return Found(value[2:3].decode(), value[27:], left > stale, age, failure)

    def land_step(self, owner: Owner, kind: str, payload: bytes, *, fresh: float, stale: float, now: float) -> Step:
        """The answer is True if it is stored, False if it must not be, or Late."""
        times = max(1, round(fresh * 1000)), round(stale * 1000)
        request = LAND.request((self._main, self._value, self._failure), owner, kind, *times, payload, self._limit(now))
        return Step(request, None, self._read, patience=LONGEST_PATIENCE, script=LAND)

    def _read(self, reply: Any, sent: float) -> "bool | Late":
        match reply:
            case [-1, int(now)]:
                self._client.learn(now / 1000, sent)
                return Late()
            case _:
                return bool(reply == 1)

    def drop_step(self, how: str, now: float) -> Step:
        """`how` is gone or stale. The answer is whether there was a value, or Late."""
        request = DROP.request((self._main, self._value, self._failure), how, self._limit(now))
        return Step(request, None, self._read, patience=LONGEST_PATIENCE, script=DROP)

    def _limit(self, now: float) -> int:
        return int((self._client.server_time(now) + LONGEST_PATIENCE) * 1e6)


def _as_it_is(reply: Any, sent: float) -> Any:
    return reply
