"""Requests about sessions of the lock service: a hash each, which expires unless its client beats.

A session is a client of the service: `ns:session:<id>` has its token, label and ttl, and for every owner what that
owner asked for, and holds. `ns:client:<id>` has the host and pid that the client named, so that `inspect` shows it.
"""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from holdtight.base.plan import Step
from holdtight.base.values import Kind, Owner, owner_text
from holdtight.stores.boundary import SessionEntry
from holdtight.stores.redis import keys
from holdtight.stores.redis.fields import cut
from holdtight.stores.redis.resp import command, fields_of
from holdtight.stores.redis.script import Script
from holdtight.stores.redis.survey import COUNT
from holdtight.stores.times import AUDIT_MS, LONGEST_PATIENCE

__all__ = ["BEAT", "ENROL", "OPEN", "STRIKE", "Session", "Sessions"]

OPEN = Script("session_open")
ENROL = Script("session_enrol")
BEAT = Script("session_beat")
STRIKE = Script("session_strike")
MOST_RECORDS = 1000
SECRET_SECONDS = 90 * 24 * 3600
_KINDS = {Kind.EXCLUSIVE: "x", Kind.SHARED: "r", Kind.PERMITS: "p"}
_OF = {code: kind for kind, code in _KINDS.items()}


class Session(NamedTuple):
    id: bytes
    about: dict[str, Any]
    ttl: float
    entries: tuple[SessionEntry, ...]
    left: float | None = None


class Sessions:
    """Of one namespace. `proof` is a text that only the client's token and secret give: it stands in `about`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def open_steps(self, session: bytes, about: dict[str, Any], ttl: float) -> list[Step]:
        opening = OPEN.request((self._key(session),), round(ttl * 1000), json.dumps(about))
        return [_step(opening, lambda reply, sent: None), self.record_step(session, about, ttl)]

    def record_step(self, session: bytes, about: dict[str, Any], ttl: float) -> Step:
        """Writes the record of the client, which lasts as long as its session."""
        record = {"host": about.get("host"), "pid": about.get("pid"), "started": about.get("opened")}
        key = self._record(session)
        return _step(command("SET", key, json.dumps(record), "PX", round(ttl * 1000)), lambda reply, sent: None)

    def enrol_step(self, session: bytes, proof: str, entry: SessionEntry, most: int = 0) -> Step:
        """Gives the session's ttl; None if there is no such session, "full", or "gone" if `most` is 0 and the owner was
        struck off."""

        def read(reply: Any, sent: float) -> "float | str | None":
            if isinstance(reply, int):
                return {0: None, -1: "full", -2: "gone"}[reply]
            ttl: int = reply[1]
            return ttl / 1000

        return self._enrol(session, proof, entry, most, read)

    def lose_step(self, session: bytes, proof: str, entry: SessionEntry) -> Step:
        """Writes that a grant is lost. Gives False if the owner was struck off, asks again, or has a later grant: what
        was found lost has ended otherwise. Gives None if there is no such session."""

        def read(reply: Any, sent: float) -> bool | None:
            if isinstance(reply, int):
                return None if reply == 0 else False
            return bool(reply[0])

        return self._enrol(session, proof, entry, 0, read)

    def _enrol(
        self, session: bytes, proof: str, entry: SessionEntry, most: int, read: Callable[[Any, float], Any]
    ) -> Step:
        names = self._key(session), self._record(session)
        return _step(ENROL.request(names, proof, entry.owner, _text(entry), most), read)

    def strike_step(self, session: bytes, owner: Owner, fence: int = 0) -> Step:
        """Strikes the owner's place in line off, and its grant up to this fence. A later grant stays."""
        return _step(STRIKE.request((self._key(session),), owner, f"{fence:016d}"), lambda reply, sent: None)

    def beat_step(self, session: bytes, proof: str) -> Step:
        """Gives the Session, or None."""

        def read(reply: Any, sent: float) -> Session | None:
            return _read(session, reply) if isinstance(reply, list) and reply else None

        return _step(BEAT.request((self._key(session),), proof), read)

    def close_step(self, session: bytes) -> Step:
        request = command("DEL", self._key(session), self._record(session))
        return _step(request, lambda reply, sent: None)

    def scan_step(self, cursor: bytes) -> Step:
        """Reads the next cursor, b"0" at the end, and ids of sessions."""
        start = self._prefix()

        def read(reply: Any, sent: float) -> tuple[bytes, list[bytes]]:
            return reply[0], [bytes.fromhex(key[len(start) :].decode()) for key in reply[1]]

        return _step(command("SCAN", cursor, "MATCH", start + b"*", "COUNT", COUNT, "TYPE", "hash"), read)

    def look_steps(self, session: bytes) -> list[Step]:
        """Without renewing it: the Session or None, and its ms left."""
        request = command("HGETALL", self._key(session))
        return [_step(request, lambda reply, sent: _read(session, reply) if reply else None), self.left_step(session)]

    def ttl_step(self, session: bytes) -> Step:
        """Reads the session's ttl; None if there is no such session."""
        request = command("HGET", self._key(session), "t")
        return _step(request, lambda reply, sent: int(reply) / 1000 if reply else None)

    def forced_steps(self, session: Session, about: dict[str, Any], at: float) -> list[Step]:
        """Records that a session is closed by force, beside what is done to its locks."""
        key = keys.audit(self._namespace)
        shown = {word: session.about.get(word) for word in ("host", "pid", "label")}
        holders = json.dumps([{"owner": owner_text(session.id + bytes(16)), **shown}])
        fields = ("id", about["id"], "at", round(at * 1e6), "fence", 0, "next", "", "holders", holders)
        noted = command("XADD", key, "MAXLEN", "~", MOST_RECORDS, "*", *fields, "about", json.dumps(about))
        return [_step(each, lambda reply, sent: None) for each in (noted, command("EXPIRE", key, AUDIT_MS // 1000))]

    def left_step(self, session: bytes) -> Step:
        """Reads the session's ms left; less than 0 if there is no such session."""
        return _step(command("PTTL", self._key(session)), lambda reply, sent: reply)

    # A secret that all instances share, for owners of clients without a token; and sessions of the page.

    def secret_step(self) -> Step:
        key = self._namespace.encode() + b":service"
        return _step(command("SET", key, os.urandom(32), "NX", "EX", SECRET_SECONDS), lambda reply, sent: reply)

    def secret_read_step(self) -> Step:
        """Keeps it for another while."""
        key = self._namespace.encode() + b":service"
        return _step(command("GETEX", key, "EX", SECRET_SECONDS), lambda reply, sent: reply)

    def login_step(self, cookie: str, value: bytes, seconds: int) -> Step:
        return _step(command("SET", self._login(cookie), value, "EX", seconds), lambda reply, sent: None)

    def logged_in_step(self, cookie: str) -> Step:
        return _step(command("GET", self._login(cookie)), lambda reply, sent: reply)

    def logout_step(self, cookie: str) -> Step:
        return _step(command("DEL", self._login(cookie)), lambda reply, sent: None)

    def _login(self, cookie: str) -> bytes:
        """Under the hash of the cookie: what the server keeps does not log in."""
        return self._namespace.encode() + b":login:" + sha256(cookie.encode()).hexdigest().encode()

    def _prefix(self) -> bytes:
        return self._namespace.encode() + b":session:"

    def _key(self, session: bytes) -> bytes:
        return self._prefix() + session.hex().encode()

    def _record(self, session: bytes) -> bytes:
        return keys.client_record(self._namespace, session)


def _text(entry: SessionEntry) -> str:
    return f"{entry.state}{_KINDS[entry.kind]}{entry.n:09d}{entry.fence:016d}{entry.name}"


def _step(request: bytes, read: Callable[[Any, float], Any]) -> Step:
    return Step(request, None, read, patience=LONGEST_PATIENCE)


def _read(session: bytes, reply: Any) -> Session | None:
    fields = fields_of(reply)
    try:
        about, ttl = json.loads(fields.pop(b"a")), int(fields.pop(b"t"))
    except (KeyError, ValueError):
        return None
    entries: list[SessionEntry] = []
    for owner, raw in fields.items():
        entries.append(
            SessionEntry(
                owner,
                cut("ENROLLED_STATE_OF", raw).decode(),
                _OF[cut("ENROLLED_KIND_OF", raw).decode()],
                int(cut("ENROLLED_COUNT_OF", raw)),
                int(cut("ENROLLED_FENCE_OF", raw)),
                cut("ENROLLED_NAME_OF", raw).decode(),
            )
        )
    return Session(session, about, ttl / 1000, tuple(entries))
