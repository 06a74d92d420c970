"""How looks show holders, waiters and locks: plain dictionaries without secrets."""

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from holdtight.base.values import Holder, LockInfo, Owner, Waiter

if TYPE_CHECKING:
    from holdtight.server.principal import Principal

__all__ = ["digits", "holder_dict", "holder_full", "info_row", "owner_digits", "owner_id", "shown_row", "waiter_full"]

MOST_HOLDERS = 5


def digits(owner: Owner) -> str:
    """An owner as looks show it: the owner itself could adopt and release."""
    return hashlib.sha256(owner).hexdigest()[:12]


def owner_digits(text: str) -> str:
    return digits(base64.urlsafe_b64decode(text))


def owner_id(text: str) -> bytes:
    """The part of an owner that names its client: a process, a session, or a token."""
    return base64.urlsafe_b64decode(text)[:8]


def holder_dict(holder: Holder) -> dict[str, Any]:
    """A holder in an error, or a leader."""
    return {
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "since": holder.since,
        "left": _left(holder),
    }


def holder_full(
    holder: Holder, now: float, session: str | None = None, seen_by: "Principal | None" = None
) -> dict[str, Any]:
    """`seen_by`: who also learns which lock the holder waits for, if that name is theirs to see."""
    awaited = holder.waits_for
    return {
        "owner": owner_digits(holder.owner),
        "fence": holder.fence,
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "session": session,
        "since": holder.since,
        "age": _age(holder.since, now),
        "left": _left(holder),
        "n": holder.n,
        "waits_for": awaited if awaited and seen_by is not None and seen_by.sees(awaited) else None,
    }


def waiter_full(waiter: Waiter, now: float, session: str | None = None) -> dict[str, Any]:
    return {
        "owner": owner_digits(waiter.owner),
        "host": waiter.host,
        "pid": waiter.pid,
        "label": waiter.label,
        "session": session,
        "since": waiter.since,
        "age": _age(waiter.since, now),
        "kind": waiter.kind.value,
        "n": waiter.n,
    }


def info_row(info: LockInfo, now: float) -> dict[str, Any]:
    """One lock of a list that may be long: `holders` are described when it is shown, by `shown_row`."""
    since = min((each.since for each in info.holders if each.since is not None), default=None)
    oldest = min((each.since for each in info.waiters if each.since is not None), default=None)
    kind = info.kind or (info.waiters[0].kind if info.waiters else None)
    left = max((_left(each) or 0.0 for each in info.holders), default=None)
    return {
        "name": info.name,
        "kind": kind.value if kind is not None else None,
        "held": info.holding,
        "holders": info.holders,
        "waiting": info.waiting,
        "oldest_wait": _age(oldest, now),
        "fence": info.fence,
        "since": since,
        "age": _age(since, now),
        "left": left,
        "expires": None if left is None else now + left,
    }


def shown_row(row: dict[str, Any], now: float) -> dict[str, Any]:
    shown = {**row, "holders": [holder_full(each, now) for each in row["holders"][:MOST_HOLDERS]]}
    del shown["expires"]
    return shown


def _age(since: float | None, now: float) -> float | None:
    return None if since is None else round(max(0.0, now - since), 3)


def _left(holder: Holder) -> float | None:
    return None if holder.expires_in is None else round(max(0.0, holder.expires_in), 3)
