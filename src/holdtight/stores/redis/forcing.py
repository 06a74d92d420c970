"""Requests that release locks by force, and that read the records of it."""

import json
from collections.abc import Sequence
from typing import Any

from holdtight.base.operations import AuditRecord, ForcedRelease
from holdtight.base.plan import Step
from holdtight.base.values import CLIENT_ID_SIZE, Holder, Kind, Late, Owner, owner_text
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.client_records import read_about, record_keys
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE, TAIL_MS

__all__ = ["FORCE", "Forcing", "read_audit"]

FORCE = Script("force")
TOLD = b"told"
"""The field of an audit record that repeats: what the records of clients said, in the order of the holders."""
RECORDS_KEPT = 2000
"""More records than a stream has: it is cut at about a thousand."""


class Forcing:
    """One namespace on one server, or on a node of a quorum."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespace = client.namespace

    def force_step(
        self,
        name: str,
        holders: Sequence[tuple[Owner, Holder]],
        *,
        about: dict[str, Any],
        now: float,
        floor: int | None = None,
        reading: bool = False,
    ) -> Step:
        """Takes the grants of these owners away. `floor`, on a node of a quorum only, is the lowest fence to give.
        `reading`: the script adds what the records say of the owners, which needs the right to these."""
        limit = int((self._client.server_time(now) + LONGEST_PATIENCE) * 1e6)
        left = max((each.expires_in or 0.0 for _, each in holders), default=0.0)
        parts: list[bytes | str] = []
        for owner, each in holders:
            parts += [owner, keys.alarm(self._namespace, owner[:CLIENT_ID_SIZE]), json.dumps(each.as_dict())]
        recorded = [key for owner, _ in holders for key in record_keys(self._client, owner)] if reading else []
        request = FORCE.request(
            (*keys.keys_of(self._namespace, name), self.audit_key(name), *recorded),
            about["id"],
            limit,
            floor or 0,
            int(floor is not None),
            round(left * 1000) + TAIL_MS,
            json.dumps(about),
            *parts,
        )
        return Step(request, None, self._read_told if reading else self._read, patience=LONGEST_PATIENCE, script=FORCE)

    def audit_key(self, name: str) -> bytes:
        """The stream that records what operators do to this lock."""
        return keys.audit(self._namespace)

    def _read(self, reply: Any, sent: float) -> "ForcedRelease | Late":
        match reply:
            case [1, at, fence, next_owner, more, *owners]:
                return ForcedRelease(at / 1e6, int(fence), next_owner or None, tuple(owners), more == 2)
            case [0, now]:
                return ForcedRelease(now / 1000, 0, None, (), False)
            case _:
                self._client.learn(reply[1] / 1000, sent)
                return Late()

    def _read_told(self, reply: Any, sent: float) -> "ForcedRelease | Late":
        about = _pairs(reply.pop()) if reply[0] == 1 else ()
        found = self._read(reply, sent)
        return found._replace(about=about) if isinstance(found, ForcedRelease) else found

    def audit_step(self, limit: int | None) -> Step:
        """Reads the records, newest first; all without a limit."""
        request = command("XREVRANGE", keys.audit(self._namespace), "+", "-", "COUNT", limit or RECORDS_KEPT)
        return Step(request, None, read_audit, patience=LONGEST_PATIENCE)


def read_audit(reply: Any, sent: float) -> list[AuditRecord]:
    found = (_record(fields) for _, fields in reply)
    return [record for record in found if record is not None]


def _pairs(told: Sequence[bytes]) -> tuple[dict[str, Any], ...]:
    return tuple(read_about(*each) for each in zip(told[::2], told[1::2], strict=True))


def _record(fields: Any) -> AuditRecord | None:
    """None for an entry that another program, or another version, has written."""
    try:
        words = dict(zip(fields[::2], fields[1::2], strict=True))
        about = json.loads(words[b"about"])
        holders = json.loads(words[b"holders"])
        if TOLD in words:
            told = [value for word, value in zip(fields[::2], fields[1::2], strict=True) if word == TOLD]
            holders = [{**each, **more} for each, more in zip(holders, _pairs(told), strict=True)]
        return AuditRecord(
            id=words[b"id"].decode(),
            at=int(words[b"at"]) / 1e6,
            action=about["action"],
            name=about["name"],
            kind=Kind(about["kind"]) if about.get("kind") else None,
            holders=tuple(_holder(each) for each in holders),
            fence=int(words[b"fence"]),
            next=owner_text(words[b"next"]) if words[b"next"] else None,
            by=about["by"],
            reason=about["reason"],
            host=about.get("host"),
            pid=about.get("pid"),
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _holder(fields: dict[str, Any]) -> Holder:
    known: dict[str, Any] = {word: value for word, value in fields.items() if word in Holder._fields}
    known["kind"] = Kind(known.get("kind", "exclusive"))
    return Holder(**known)
