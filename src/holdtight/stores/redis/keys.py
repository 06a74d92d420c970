"""The one place for names on the server.

`ns:{name}` and its companions share one hash tag, hence one cluster slot. `%`, `{` and `}` are escaped
inside the tag, so that no name can end it early and reach into another's keys. Names without a tag
(client records, inboxes, what waiters publish) contain no brace and so cannot be anybody's lock.
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
"""How the keys end that stand beside the main key, for scripts that are told that one only."""

OF_A_RENEWAL = b"$%d\r\n%b\r\n$%d\r\n%b:w\r\n$%d\r\n%b:h\r\n"
"""Main, waiters and holders, as they go on the wire, each by its size and by the main key."""


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
    """All keys of a name, as they go on the wire."""
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
    """Who wants to be rung when a node of a quorum gets its vote back."""
    return main + b":b"


def stamp(namespace: str) -> bytes:
    """What a node of a quorum knows of its last start."""
    return namespace.encode() + b":stamp"


def waits(namespace: str, owner: bytes) -> bytes:
    """Where the owner of a grant says what it waits for."""
    return namespace.encode() + b":waits:" + urlsafe_b64encode(owner)
