"""All key and channel names on the server.

`ns:{name}` and its companions share one hash tag, hence one cluster slot. `%`, `{` and `}` are escaped inside the tag,
so that no name can end the tag early and collide with the keys of another name. Names without a tag (client records,
inboxes, wait records) contain no brace and so cannot be the key of a lock.
"""

from base64 import urlsafe_b64encode
from typing import NamedTuple

__all__ = [
    "BESIDE",
    "HOLE",
    "OF_A_RENEWAL",
    "Keys",
    "alarm",
    "audit",
    "client_record",
    "failure",
    "inbox",
    "keys_of",
    "main_key",
    "mark",
    "pack",
    "record",
    "stamp",
    "template",
    "value",
    "waits",
    "watchers",
]

_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


BESIDE = {"QUEUE": ":q", "WAITERS": ":w", "HOLDERS": ":h", "WATCHERS": ":b"}
"""Suffixes of the companion keys, for scripts that get the main key only."""

OF_A_RENEWAL = b"$%d\r\n%b\r\n$%d\r\n%b:w\r\n$%d\r\n%b:h\r\n"
"""Encodes the keys main, waiters and holders; takes the size and the main key for each."""


class Keys(NamedTuple):
    main: bytes
    queue: bytes
    waiters: bytes
    holders: bytes

    @classmethod
    def beside(cls, main: bytes) -> "Keys":
        return cls(main, main + b":q", main + b":w", main + b":h")


def keys_of(namespace: str, name: str) -> Keys:
    return Keys.beside(main_key(namespace, name))


def main_key(namespace: str, name: str) -> bytes:
    if "%" in name or "{" in name or "}" in name:
        name = name.translate(_ESCAPES)
    return f"{namespace}:{{{name}}}".encode()


HOLE = b"\xff"
"""Stands for the main key in a template. UTF-8 has no such byte, so no key and no label contains it."""


def template(start: bytes, size: int, end: bytes = b"") -> bytes:
    """`start`, all keys of a name, encoded, and `end`, for a main key of this size."""
    own, more = b"$%d\r\n" % size, b"$%d\r\n" % (size + 2)
    beside = b"".join(more + HOLE + suffix for suffix in (b":q\r\n", b":w\r\n", b":h\r\n"))
    return start + own + HOLE + b"\r\n" + beside + end


def pack(start: bytes, main: bytes, end: bytes = b"") -> bytes:
    """`start`, all keys of a name, encoded, and `end`."""
    return template(start, len(main)).replace(HOLE, main) + end


def client_record(namespace: str, client: bytes) -> bytes:
    return namespace.encode() + b":client:" + urlsafe_b64encode(client).rstrip(b"=")


def inbox(namespace: str, client: bytes, number: int) -> bytes:
    return namespace.encode() + b":inbox:" + urlsafe_b64encode(client).rstrip(b"=") + b":%x" % number


def alarm(namespace: str, client: bytes) -> bytes:
    """The channel on which a client's keeper hears that one of its grants was released by force."""
    return namespace.encode() + b":alarm:" + urlsafe_b64encode(client).rstrip(b"=")


def audit(namespace: str) -> bytes:
    """The stream with the records of what operators did."""
    return namespace.encode() + b":audit"


def watchers(main: bytes) -> bytes:
    """The waiters that a node of a quorum rings when it gets its vote back."""
    return main + b":b"


def record(main: bytes, occurrence: str = "") -> bytes:
    """The record of a job's last run, or of the run for this occurrence. Braces are escaped, so that nothing that
    looks for the keys of locks, which end in one, takes it for one."""
    return main + b":o" + (b":" + occurrence.translate(_ESCAPES).encode() if occurrence else b"")


def value(main: bytes) -> bytes:
    """The key of the value that a flight has computed."""
    return main + b":v"


def failure(main: bytes) -> bytes:
    """The key that says how a flight failed, or which flight an invalidation has spoiled."""
    return main + b":e"


def mark(namespace: str, number: int = 0) -> bytes:
    """A key that is written so that replicas have something to acknowledge: see acks.py. The number decides about its
    slot on a cluster. No colon before the brace: it cannot be the key of a lock."""
    return namespace.encode() + (b":acks{%d}" % number if number else b":acks")


def stamp(namespace: str) -> bytes:
    """The record of a quorum node's last start, for the restart guard."""
    return namespace.encode() + b":stamp"


def waits(namespace: str, owner: bytes) -> bytes:
    """The record of what the owner of a grant waits for."""
    return namespace.encode() + b":waits:" + urlsafe_b64encode(owner)
