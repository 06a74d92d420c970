"""Reads replies of `inspect.lua` into values. See fields.py for the format."""

from typing import Any

from holdtight.base.values import Holder, Kind, LockInfo, Owner, Waiter, owner_text
from holdtight.stores.redis.fields import after_inbox, cut

__all__ = ["exclusive_holder", "read_inspection"]

_MODES = {b"x": Kind.EXCLUSIVE, b"r": Kind.SHARED, b"p": Kind.PERMITS}
_STATES = {b"x1": Kind.EXCLUSIVE, b"s1": Kind.SHARED, b"p1": Kind.PERMITS}


def read_inspection(name: str, reply: Any, most: int) -> LockInfo:
    """The result has no host and pid: those are in the client records, see core/inspect.py."""
    _, value, left, shared, line, waiting, holding = reply
    state = _STATES.get(cut("KIND_OF", value))
    fence = int(cut("FENCE_OF" if state is Kind.EXCLUSIVE else "SHARED_FENCE_OF", value)) if value else None
    holders: tuple[Holder, ...]
    if state is Kind.EXCLUSIVE:
        holders = (_exclusive_holder(value, left / 1000),) if left > 0 else ()
    else:
        holders = tuple(_holder(*shared[at : at + 3]) for at in range(0, len(shared), 3))
    waiters = tuple(_waiter(line[at], line[at + 1]) for at in range(0, len(line), 2))
    kind = state if holders else next((waiter.kind for waiter in waiters), None)
    return LockInfo(
        name=name,
        kind=kind,
        holders=holders,
        waiters=waiters,
        waiting=waiting if waiting > most else len(waiters),
        fence=fence,
        holding=holding if holding > most else len(holders),
    )


def exclusive_holder(value: Any, owner: Owner) -> Holder | None:
    """The holder in this value of a main key; None if it is another owner, or no lock at all."""
    if not isinstance(value, bytes) or cut("KIND_OF", value) != b"x1" or cut("OWNER_OF", value) != owner:
        return None
    return _exclusive_holder(value) if cut("FENCE_OF", value).isdigit() else None


def _exclusive_holder(value: bytes, left: float | None = None) -> Holder:
    fence = int(cut("FENCE_OF", value))
    owner, label = owner_text(cut("OWNER_OF", value)), _text(cut("LABEL_OF", value))
    return Holder(owner, fence=fence, label=label, since=fence / 1e6, expires_in=left)


def _holder(owner: bytes, entry: bytes, left: int) -> Holder:
    fence = int(cut("HELD_FENCE_OF", entry))
    return Holder(
        owner=owner_text(owner),
        fence=fence,
        label=_text(cut("HELD_LABEL_OF", entry)),
        since=fence / 1e6,
        expires_in=left / 1000,
        kind=_MODES[cut("MODE_OF", entry)],
        n=int(cut("HELD_COUNT_OF", entry)),
    )


def _waiter(owner: bytes, entry: bytes) -> Waiter:
    kind, rest = _MODES[cut("MODE_OF", entry)], after_inbox(entry)
    n = 1
    if kind is Kind.PERMITS:
        n, rest = int(cut("COUNT_OF", rest)), cut("AFTER_PERMITS_OF", rest)
    return Waiter(
        owner=owner_text(owner),
        label=_text(rest),
        since=int(cut("JOINED_OF", entry)) / 1000,
        kind=kind,
        n=n,
    )


def _text(raw: bytes) -> str | None:
    return raw.decode(errors="replace") or None
