"""Requests that look at a whole namespace: which names are in use, and the state of each.

There is no index of the locks: it would cost every acquisition a write. SCAN goes through all keys of the database, a
few hundred at a time, and only main keys of locks match: they alone end in `}`.
"""

import re
from collections.abc import Sequence
from typing import Any

from holdtight.base.plan import LinkDown, Step
from holdtight.base.values import LISTED, LockInfo
from holdtight.stores.redis import keys, script
from holdtight.stores.redis.fields import cut
from holdtight.stores.redis.inspection import read_inspection
from holdtight.stores.redis.resp import bulk, command
from holdtight.stores.times import LONGEST_PATIENCE, TAIL_MS

__all__ = ["START", "Survey", "is_held", "name_of"]

START = b"0"
"""The cursor of SCAN at the beginning, and at the end."""
COUNT = 500
"""How many keys one SCAN looks at: 0.15 ms of the server's time."""
_MOST = bulk(LISTED)
_ESCAPED = (("%7B", "{"), ("%7D", "}"), ("%25", "%"))


class Survey:
    """One namespace on one server, or on every node of a quorum."""

    first = START

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def scan_step(self, cursor: bytes, prefix: str) -> Step:
        """Reads the next cursor, START at the end, and the names found, which start with `prefix`."""
        literal = keys.main_key(self._namespace, prefix)[:-1]
        pattern = re.sub(rb"([*?\[\]\\])", rb"\\\1", literal) + b"*}"

        def read(reply: Any, sent: float) -> tuple[bytes, list[str]]:
            found = (name_of(self._namespace, key) for key in reply[1])
            return reply[0], [name for name in found if name is not None]

        request = command("SCAN", cursor, "MATCH", pattern, "COUNT", COUNT, "TYPE", "string")
        return Step(request, None, read, patience=LONGEST_PATIENCE)

    # For a cluster, whose servers are asked one after another.

    def restarted(self, cursor: bytes) -> bytes:
        return START

    def passed_over(self, cursor: bytes, down: LinkDown) -> bytes:
        raise down

    def looked_again(self) -> Step | None:
        return None

    def rest(self) -> bytes:
        return START

    def failure(self) -> LinkDown | None:
        return None

    def held_step(self, names: Sequence[str]) -> Step:
        """Reads which of these names have a holder, or had one that has expired: not those that were released, and not
        values of other programs."""

        def read(reply: Any, sent: float) -> list[str]:
            return [name for name, value in zip(names, reply, strict=True) if is_held(value)]

        request = command("MGET", *[keys.main_key(self._namespace, name) for name in names])
        return Step(request, None, read, patience=LONGEST_PATIENCE)

    def glance_steps(self, name: str) -> tuple[Step, Step]:
        """Two plain reads, for `glanced`."""
        key = keys.main_key(self._namespace, name)
        end = b"$%d\r\n%b\r\n" % (len(key), key)
        return (
            Step(b"*2\r\n$3\r\nGET\r\n" + end, None, _as_it_is, patience=LONGEST_PATIENCE),
            Step(b"*2\r\n$4\r\nPTTL\r\n" + end, None, _as_it_is, patience=LONGEST_PATIENCE),
        )

    def glanced(self, name: str, value: Any, left: Any) -> LockInfo | None:
        """The state of a lock that one owner holds, or nobody. None if there may be more to it: only the script can
        tell."""
        if isinstance(value, bytes) and isinstance(left, int) and is_held(value) and value.startswith(b"x1-"):
            return read_inspection(name, (0, value, max(0, left - TAIL_MS), (), (), 0, 0), LISTED)
        return None

    def inspect_step(self, name: str) -> Step:
        def read(reply: Any, sent: float) -> LockInfo:
            return read_inspection(name, reply, LISTED)

        request = keys.pack(script.INSPECT.start, keys.main_key(self._namespace, name), _MOST)
        return Step(request, None, read, patience=LONGEST_PATIENCE, script=script.INSPECT)


def _as_it_is(reply: Any, sent: float) -> Any:
    return reply


def name_of(namespace: str, key: bytes) -> str | None:
    """The lock's name; None for a key that is not the main key of a lock."""
    start = f"{namespace}:{{".encode()
    if not key.startswith(start) or not key.endswith(b"}"):
        return None
    try:
        name = key[len(start) : -1].decode()
    except UnicodeDecodeError:
        return None
    if "%" in name:
        for escape, char in _ESCAPED:
            name = name.replace(escape, char)
    return name if name and keys.main_key(namespace, name) == key else None


def is_held(value: Any) -> bool:
    """Whether a main key with this value has a holder, or had one that has expired."""
    if not isinstance(value, bytes):
        return False
    kind = cut("KIND_OF", value)
    if kind == b"x1":
        return len(value) >= 43 and cut("FENCE_OF", value).isdigit()
    return kind in (b"s1", b"p1") and len(value) <= 20 and cut("SHARED_FENCE_OF", value).isdigit()
