"""Sessions of the lock service in a memory store: the commands that `stores/redis/sessions.py` sends."""

from collections import deque
from typing import TYPE_CHECKING, Any

from holdtight.base.plan import ServerSaid
from holdtight.stores.redis import sessions
from holdtight.stores.redis.fields import cut

if TYPE_CHECKING:
    from holdtight.stores.memory.shelf import Shelf

__all__ = ["SCRIPTS", "Hashes"]

Fields = dict[bytes, bytes]
DAY_MS = 24 * 3600 * 1000


class Hashes:
    """Hashes with an expiry (ms). The sessions of one server, whose strings are on `shelf`."""

    def __init__(self, shelf: "Shelf") -> None:
        self._shelf = shelf
        self.found: dict[bytes, tuple[Fields, int]] = {}

    def get(self, key: bytes, now: int) -> Fields | None:
        fields, until = self.found.get(key, (None, 0))
        if fields is None or now < until:
            return fields
        del self.found[key]
        return None

    def field(self, key: bytes, field: bytes, now: int) -> bytes | None:
        return (self.get(key, now) or {}).get(field)

    def flat(self, key: bytes, now: int) -> list[bytes]:
        return [part for pair in (self.get(key, now) or {}).items() for part in pair]

    def left(self, key: bytes, now: int) -> int:
        return self.found[key][1] - now if self.get(key, now) is not None else -2

    def drop(self, key: bytes, now: int) -> bool:
        return self.get(key, now) is not None and bool(self.found.pop(key))

    def matching(self, pattern: bytes, now: int) -> list[bytes]:
        start = pattern.removesuffix(b"*")
        return [key for key in list(self.found) if key.startswith(start) and self.get(key, now) is not None]

    def more(self, argv: list[bytes], streams: dict[bytes, Any], now: int) -> Any:
        """What the service's history needs. Streams have the newest entry first."""
        match argv:
            case [b"XADD", key, b"MAXLEN", _, most, b"*", *fields]:
                stream = streams.setdefault(key, deque(maxlen=int(most)))
                ms, number = (int(part) for part in stream[0][0].split(b"-")) if stream else (0, 0)
                id_ = b"%d-0" % now if now > ms else b"%d-%d" % (ms, number + 1)
                stream.appendleft((id_, fields))
                return id_
            case [b"XRANGE", key, start, b"+", b"COUNT", most]:
                after = _id(start.removeprefix(b"("))
                found = [list(entry) for entry in reversed(streams.get(key, ())) if _id(entry[0]) > after]
                return found[: int(most)]
            case [b"HINCRBY", key, field, number]:
                counts = self.get(key, now)
                if counts is None:
                    counts = {}
                    self.found[key] = counts, now + DAY_MS
                counts[field] = b"%d" % (int(counts.get(field, 0)) + int(number))
                return int(counts[field])
            case [b"EXPIRE", key, time]:
                known = self.get(key, now)
                if known is not None:
                    self.found[key] = known, now + int(time) * 1000
                return 1
            case _:
                raise ServerSaid("ERR syntax error")

    # The scripts

    def open(self, now: int, key: bytes, ttl: bytes, about: bytes) -> Any:
        fields = self.get(key, now) or {}
        fields |= {b"a": about, b"t": ttl}
        self.found[key] = fields, now + int(ttl)
        return 1

    def enrol(self, now: int, key: bytes, client: bytes, proof: bytes, owner: bytes, entry: bytes, most: bytes) -> Any:
        fields = self.get(key, now)
        if fields is None or proof not in fields[b"a"]:
            return 0
        known = fields.get(owner)
        if known is None:
            if most == b"0":
                return -2
            if len(fields) >= int(most) + 2:
                return -1
        written = known is None or not _is_later(known, entry)
        if written:
            fields[owner] = entry
        ttl = self._keep(key, fields, now)
        if self._shelf.get(client, now) is not None:
            self._shelf.expire(client, now + ttl)
        return [int(written), ttl]

    def strike(self, now: int, key: bytes, owner: bytes, fence: bytes) -> Any:
        fields = self.get(key, now) or {}
        known = fields.get(owner)
        if known is None or (cut("ENROLLED_STATE_OF", known) != b"w" and cut("ENROLLED_FENCE_OF", known) > fence):
            return 0
        del fields[owner]
        return 1

    def beat(self, now: int, key: bytes, proof: bytes) -> Any:
        fields = self.get(key, now)
        if fields is None or proof not in fields[b"a"]:
            return 0
        self._keep(key, fields, now)
        return [part for pair in fields.items() for part in pair]

    def _keep(self, key: bytes, fields: Fields, now: int) -> int:
        ttl = int(fields[b"t"])
        self.found[key] = fields, now + ttl
        return ttl


def _is_later(known: bytes, entry: bytes) -> bool:
    if cut("ENROLLED_FENCE_OF", known) > cut("ENROLLED_FENCE_OF", entry):
        return True
    return cut("ENROLLED_STATE_OF", known) == b"w" and cut("ENROLLED_STATE_OF", entry) in b"etf"


def _id(text: bytes) -> tuple[int, int]:
    ms, _, number = text.partition(b"-")
    return int(ms), int(number or 0)


SCRIPTS: dict[bytes, Any] = {}
for _script, _verb in (
    (sessions.OPEN, Hashes.open),
    (sessions.ENROL, Hashes.enrol),
    (sessions.STRIKE, Hashes.strike),
    (sessions.BEAT, Hashes.beat),
):
    SCRIPTS[_script.sha.encode()] = SCRIPTS[_script.body] = _verb
