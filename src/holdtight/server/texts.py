"""The texts that clients keep: a session, a lease. Both are secrets; nothing has to be looked up to read them."""

import base64
import binascii
import hashlib
import os
import struct
from typing import NamedTuple

from holdtight.aio.agent import Held
from holdtight.base.clock import LONGEST_TTL, SHORTEST_TTL
from holdtight.base.names import check_name
from holdtight.base.values import Kind, Owner
from holdtight.server.problems import Problem

__all__ = ["LeaseText", "SessionText", "derive"]

_SESSION = "hts_"
_LEASE = "htl_"
_LAYOUT = struct.Struct(">BBIIQ24s")
_VERSION = 1
_OF_A_SESSION = 0x80
"""The highest bit of an id: set in the ids of sessions, not in those of tokens."""
_KINDS = (Kind.EXCLUSIVE, Kind.SHARED, Kind.PERMITS)


def derive(id_: bytes, secret: bytes, kind: Kind, n: int, name: str, request: str | None) -> Owner:
    """The owner of this request: the same whichever instance is asked. Random without a request id."""
    if request is None:
        return id_ + os.urandom(16)
    count, named, asked, word = b"%d" % n, name.encode(), request.encode(), kind.value.encode()
    parts = len(secret), secret, len(word), word, len(count), count, len(named), named, len(asked), asked
    return id_ + hashlib.sha256(b"%d:%b%d:%b%d:%b%d:%b%d:%b" % parts).digest()[:16]


def _encode(prefix: str, raw: bytes) -> str:
    return prefix + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(prefix: str, text: str, what: str, member: str) -> bytes:
    if not text.startswith(prefix) or not text.isascii():
        raise _wrong(what, member)
    body = text[len(prefix) :]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise _wrong(what, member) from None


def _wrong(what: str, member: str) -> Problem:
    return Problem(400, "BAD_REQUEST", f"{member}: this text is not a {what} of this service")


class SessionText(NamedTuple):
    id: bytes
    secret: bytes

    @classmethod
    def fresh(cls) -> "SessionText":
        id_ = os.urandom(8)
        return cls(bytes((id_[0] | _OF_A_SESSION,)) + id_[1:], os.urandom(16))

    @classmethod
    def read(cls, text: str) -> "SessionText":
        raw = _decode(_SESSION, text, "session", "session")
        if len(raw) != 24 or raw[0] < _OF_A_SESSION:
            raise _wrong("session", "session")
        return cls(raw[:8], raw[8:])

    def text(self) -> str:
        return _encode(_SESSION, self.id + self.secret)

    def proof(self, token: str) -> str:
        """The session's record has this in place of the secret. Another token gives another proof."""
        return hashlib.sha256(b"session\0" + self.secret + token.encode()).hexdigest()


class LeaseText(NamedTuple):
    """`fence` is 0 for a place in line. The owner says whether it is of a session, so that nobody can change a text to
    say otherwise: it would have another owner, which holds nothing."""

    held: Held
    ttl: float

    @classmethod
    def read(cls, text: str, member: str = "lease") -> "LeaseText":
        raw = _decode(_LEASE, text, "lease", member)
        try:
            version, kind, n, ttl, fence, owner = _LAYOUT.unpack_from(raw)
            name = raw[_LAYOUT.size :].decode()
            check_name(name)
            if version != _VERSION or not n or fence >= 1 << 53 or not SHORTEST_TTL <= ttl / 1000 <= LONGEST_TTL:
                raise ValueError
            return cls(Held(name, _KINDS[kind], n, owner, fence), ttl / 1000)
        except (struct.error, ValueError, IndexError, TypeError):
            raise _wrong("lease", member) from None

    def text(self) -> str:
        held = self.held
        head = _LAYOUT.pack(_VERSION, _KINDS.index(held.kind), held.n, round(self.ttl * 1000), held.fence, held.owner)
        return _encode(_LEASE, head + held.name.encode())

    @property
    def in_session(self) -> bool:
        return self.held.owner[0] >= _OF_A_SESSION

    @property
    def session_id(self) -> bytes:
        return self.held.owner[:8]
