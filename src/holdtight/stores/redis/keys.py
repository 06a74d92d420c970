"""All key and channel names on the server.

`ns:{name}` and its companions share one hash tag, hence one cluster slot. `%`, `{` and `}` are escaped inside the tag,
so that no name can end the tag early and collide with the keys of another name. Names without a tag (client records,
inboxes, wait records) contain no brace and so cannot be the key of a lock.
"""

from base64 import urlsafe_b64encode
from typing import NamedTuple

__all__ = [
    "BESIDE",
    "OF_A_RENEWAL",
    "Keys",
    "client_record",
    "inbox",
    "keys_of",
    "main_key",
    "pack",
    "stamp",
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
    return f"{namespace}:{{{name.translate(_ESCAPES)}}}".encode()


def pack(main: bytes) -> bytes:
    """All keys of a name, encoded."""
    size = len(main)
    more = size + 2
    return b"$%d\r\n%b\r\n$%d\r\n%b:q\r\n$%d\r\n%b:w\r\n$%d\r\n%b:h\r\n" % (
        size,
        main,
        more,
        main,
        more,
        main,
        more,
        main,
    )


def client_record(namespace: str, client: bytes) -> bytes:
    return namespace.encode() + b":client:" + urlsafe_b64encode(client).rstrip(b"=")


def inbox(namespace: str, client: bytes, number: int) -> bytes:
    return namespace.encode() + b":inbox:" + urlsafe_b64encode(client).rstrip(b"=") + b":%x" % number


def watchers(main: bytes) -> bytes:
    """The waiters that a node of a quorum rings when it gets its vote back."""
    return main + b":b"


def stamp(namespace: str) -> bytes:
    """The record of a quorum node's last start, for the restart guard."""
    return namespace.encode() + b":stamp"


def waits(namespace: str, owner: bytes) -> bytes:
    """The record of what the owner of a grant waits for."""
    return namespace.encode() + b":waits:" + urlsafe_b64encode(owner)
