"""What a client does to locks that it need not hold: it lists them, releases them by force, and reads the records of
that. Checks what it was asked for before anything is sent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdtight.base.names import check_name
from holdtight.base.records import FORCED
from holdtight.base.values import OWNER_SIZE, owner_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdtight.base.event_bus import Events
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.base.plan import Plan
    from holdtight.base.values import Kind
    from holdtight.clients.verbs import Verbs
    from holdtight.config.settings import Settings
    from holdtight.core.listing import Listing, QuorumListing
    from holdtight.stores.boundary import Place

__all__ = ["Outside"]

LONGEST_REASON = 500
LONGEST_BY = 128
MOST_AUDITED = 1_000_000
"""More than any server keeps: it refuses numbers that do not fit into 63 bits."""
VOUCHED = "no lease was held when the nodes last started"


class _Terms:
    """As much of a lock's terms as a record needs: its holder was another client's."""

    def __init__(self, template: str | None, kind: Kind) -> None:
        self.template = template
        self.kind = kind


class Outside:
    """The part of a client that looks at locks from outside, and acts on them. Sends nothing itself."""

    events: Events

    if TYPE_CHECKING:
        place: Place
        verbs: Verbs
        settings: Settings

        def lock(self, name: str) -> Any: ...
        def check_open(self) -> None: ...
        def _places(self) -> Sequence[Place]: ...

    def _entered(self) -> dict[str, int]:
        """The number of entries of each grant of this client, by owner."""
        from holdtight.grants.tenure import Tenure

        found: dict[str, int] = {}
        for place in self._places():
            for each in self.place.runtime.keeper.charges(place):
                tenure = getattr(each, "tenure", each)
                if isinstance(tenure, Tenure):
                    found[owner_text(tenure.owner)] = tenure.entered
        return found

    def _listing(self, pattern: Any) -> Listing | QuorumListing:
        check_text(pattern, "pattern", None)
        self.check_open()
        return self.verbs.listing(self.place, pattern, self._entered())

    def _force(self, name: str, reason: str, by: str | None, owner: str | None) -> Plan[AuditRecord | None]:
        check_name(name)
        check_text(reason, "reason", LONGEST_REASON)
        if by is not None:
            check_text(by, "by", LONGEST_BY)
        if owner is not None:
            check_owner(owner)
        self.check_open()
        from holdtight.core.force import Order

        about = _about("force_release", name, by, reason)
        return self.verbs.force(self.place, self.lock(name).prepared, Order(about, owner), self._entered())

    def _bless(self) -> Plan[dict[str, str]]:
        return self.verbs.bless(self.place, _about("bless", "", None, VOUCHED))

    def _audit(self, limit: Any, name: str | None) -> Plan[list[AuditRecord]]:
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"limit must be an int, not {type(limit).__name__}")
        if limit < 1:
            raise ValueError(f"limit={limit} must be at least 1")
        if name is not None:
            check_name(name)
        self.check_open()
        return self.verbs.audit(self.place, min(limit, MOST_AUDITED), name)

    def _doctor(self) -> Plan[list[Finding]]:
        return self.verbs.doctor(self.place, self.settings)

    def report_forced(self, record: AuditRecord | None) -> AuditRecord | None:
        """Emits one event for each holder that lost the lock."""
        if record is not None:
            from holdtight.events import Forced

            template = self.lock(record.name).terms.template
            for each in record.holders:
                if self.events.record is not None:
                    self.events.record((FORCED, _Terms(template, each.kind), record.name))
                self.events.emit(
                    Forced(
                        *(record.name, each.owner, each.fence or 0, record.by, record.reason),
                        kind=each.kind,
                        template=template,
                    )
                )
        return record


def check_text(text: object, argument: str, most: int | None) -> None:
    """`most` is the longest that is allowed, in bytes of UTF-8; None allows any length, and control characters."""
    if not isinstance(text, str):
        raise TypeError(f"{argument} must be a str, not {type(text).__name__}")
    if not text:
        raise ValueError(f"{argument} is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{argument}={text!r} is not valid Unicode text (lone surrogates)") from None
    if most is None:
        return
    if size > most:
        raise ValueError(f"{argument} has {size} bytes of UTF-8, at most {most} are allowed")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text):
        raise ValueError(f"{argument}={text!r} contains control characters")


def check_owner(owner: object) -> None:
    import base64
    import binascii

    if not isinstance(owner, str):
        raise TypeError(f"owner must be a str, as inspect() shows it, not {type(owner).__name__}")
    try:
        raw = base64.b64decode(owner.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != OWNER_SIZE:
        raise ValueError(f"owner={owner!r} is not the owner of a lock, as inspect() shows it")


def _about(action: str, name: str, by: str | None, reason: str) -> dict[str, Any]:
    """What an audit record says of the act, besides its effect."""
    import socket

    return {
        "id": os.urandom(16).hex(),
        "action": action,
        "name": name,
        "by": _operator() if by is None else by,
        "reason": reason,
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }


def _operator() -> str:
    """The user of this process and the machine."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = str(os.getuid())
    name = f"{user}@{socket.gethostname()}".encode(errors="replace")[:LONGEST_BY]
    return name.decode(errors="ignore")
