"""The slots of a cluster: which one a request belongs to, what a redirection says, and the sharded form of scripts.

A request is routed by its bytes: its first key decides. So the code that makes requests knows nothing of slots, and
every request of one key, or of the keys of one name, finds its server.
"""

import re
from binascii import crc_hqx
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdtight.stores.redis.script import EVALSHA_WORD, SCRIPTS, Script

__all__ = [
    "ASKING",
    "SLOTS",
    "Endpoint",
    "Redirection",
    "mget_keys",
    "read_slots",
    "redirection",
    "sharded",
    "slot_of",
    "slot_of_request",
]

SLOTS = 16384
LISTEN_SECONDS = 1.0
"""How long a server may take to answer that a waiter listens."""
ASKED_PAUSE = 0.05
"""A waiter whose slot is half moved cannot be rung: it looks again so often."""
ASKING = b"*1\r\n$6\r\nASKING\r\n"
Endpoint = tuple[str, int]
_KEYLESS = frozenset(
    (
        b"SCAN",
        b"INFO",
        b"TIME",
        b"CONFIG",
        b"ACL",
        b"PING",
        b"CLUSTER",
        b"CLIENT",
        b"COMMAND",
        b"ROLE",
        b"HELLO",
        b"DBSIZE",
    )
)


def slot_of(key: bytes) -> int:
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) & (SLOTS - 1)


def _words(request: bytes) -> Iterator[bytes]:
    at = request.index(b"\n") + 1
    while at < len(request):
        end = request.index(b"\r", at)
        size = int(request[at + 1 : end])
        yield request[end + 2 : end + 2 + size]
        at = end + 4 + size


def first_key(request: bytes) -> bytes | None:
    """None for a request without keys. The request may be incomplete behind its first key."""
    words = _words(request)
    name = next(words)
    if name in _KEYLESS:
        return None
    if name in (b"EVALSHA", b"EVAL"):
        next(words)
        if next(words) == b"0":
            return None
    return next(words, None)


def slot_of_request(request: bytes) -> int | None:
    key = first_key(request)
    return None if key is None else slot_of(key)


def mget_keys(request: bytes) -> list[bytes] | None:
    """The keys of an MGET whose keys do not share a slot; None for all other requests."""
    if b"\r\n$4\r\nMGET\r\n" not in request[:20]:
        return None
    keys = list(_words(request))[1:]
    return keys if len({slot_of(key) for key in keys}) > 1 else None


class Redirection(NamedTuple):
    """`asking`: for this request only, after ASKING."""

    slot: int
    where: Endpoint
    asking: bool


def redirection(said: str, asked: str) -> Redirection | None:
    """From an error reply of the node at the host `asked`, which is meant by an empty host."""
    found = re.match(r"(MOVED|ASK) (\d+) (.*):(\d+)$", said)
    if found is None:
        return None
    return Redirection(int(found[2]), (found[3].strip("[]") or asked, int(found[4])), found[1] == "ASK")


def read_slots(reply: Any, asked: str) -> tuple[list[Endpoint | None], set[Endpoint]]:
    """From CLUSTER SLOTS: the master of each slot, and all nodes. A node without a host is where we asked."""
    table: list[Endpoint | None] = [None] * SLOTS
    nodes: set[Endpoint] = set()
    for begin, end, *serving in reply:
        found = [((each[0] or b"").decode() or asked, int(each[1])) for each in serving]
        found = [each for each in found if each[0] != "?"]
        nodes.update(found)
        if found:
            table[begin : end + 1] = [found[0]] * (end + 1 - begin)
    return table, nodes


# Bells go to a channel in the lock's own slot, `<main key>:<inbox>`, which only the servers of that slot carry.


class ShardedScript(Script):
    """The form of a script for a cluster. The alarm of a forced release stays a message to all nodes."""

    def transformed(self, source: str) -> str:
        before = "main .. ':' .. " if "main" in self.keys else ""
        rung = re.sub(r"'PUBLISH', (?!found\[i\]\.alarm)", f"'SPUBLISH', {before}", source)
        return rung.replace("'NUMSUB', ", f"'SHARDNUMSUB', {before}")


RENEW_ALONE = Script("renew_alone")
_forms: dict[bytes, bytes] = {}


def sharded(request: bytes) -> bytes:
    """The request with the sharded form of its script; unchanged if that has none, or if it is that."""
    found = request.find(EVALSHA_WORD, 0, 40)
    if found < 0:
        return request
    begin = found + len(EVALSHA_WORD)
    form = _forms.get(request[begin : begin + 40])
    if form is None:
        form = _form_of(request[begin : begin + 40])
    return request[:begin] + form + request[begin + 40 :]


def _form_of(sha: bytes) -> bytes:
    known = next((each for each in SCRIPTS if each.sha.encode() == sha), None)
    if known is None or isinstance(known, ShardedScript):
        _forms[sha] = sha
    else:
        made = next((e for e in SCRIPTS if isinstance(e, ShardedScript) and e.name == known.name), None)
        made = made or ShardedScript(known.name)
        _forms[sha] = made.sha.encode()
    return _forms[sha]


def load_sharded() -> None:
    """Makes the sharded forms of all scripts that a grant may need later."""
    for each in [*SCRIPTS]:
        if not isinstance(each, ShardedScript):
            sharded(each.start)
