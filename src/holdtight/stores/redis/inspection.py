"""What `inspect.lua` tells, as values. See lua/lib/queue.lua for the format."""

from typing import Any

from holdtight.base.values import Holder, Kind, LockInfo, Owner, Waiter, owner_text

__all__ = ["exclusive_holder", "read_inspection"]

_MODES = {b"x": Kind.EXCLUSIVE, b"r": Kind.SHARED, b"p": Kind.PERMITS}
_STATES = {b"x1": Kind.EXCLUSIVE, b"s1": Kind.SHARED, b"p1": Kind.PERMITS}


def read_inspection(name: str, reply: Any, most: int) -> LockInfo:
    """Without host and pid: those stand in the clients' own records, see core/inspect.py."""
    _, value, left, shared, line, waiting, _ = reply
    state = _STATES.get(value[:2])
    fence = int(value[27:43] if state is Kind.EXCLUSIVE else value[3:19]) if value else None
    holders: tuple[Holder, ...]
    if state is Kind.EXCLUSIVE:
        holders = (_exclusive_holder(value)._replace(expires_in=left / 1000),) if left > 0 else ()
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
    )


def exclusive_holder(value: Any, owner: Owner) -> Holder | None:
    """What the main key says about this owner; None if it is another's by now, or no lock at all."""
    if isinstance(value, bytes) and value[:2] == b"x1" and value[3:27] == owner and value[27:43].isdigit():
        return _exclusive_holder(value)
    return None


def _exclusive_holder(value: bytes) -> Holder:
    fence = int(value[27:43])
    return Holder(owner_text(value[3:27]), fence=fence, label=_text(value[43:]), since=fence / 1e6)


def _holder(owner: bytes, entry: bytes, left: int) -> Holder:
    fence = int(entry[10:26])
    return Holder(
        owner=owner_text(owner),
        fence=fence,
        label=_text(entry[26:]),
        since=fence / 1e6,
        expires_in=left / 1000,
        kind=_MODES[entry[:1]],
        n=int(entry[1:10]),
    )


def _waiter(owner: bytes, entry: bytes) -> Waiter:
    kind, rest = _MODES[entry[:1]], entry[39 + int(entry[37:39]) :]
    n = 1
    if kind is Kind.PERMITS:
        n, rest = int(rest[:9]), rest[18:]
    return Waiter(
        owner=owner_text(owner),
        label=_text(rest),
        since=int(entry[24:37]) / 1000,
        kind=kind,
        n=n,
    )


def _text(raw: bytes) -> str | None:
    return raw.decode(errors="replace") or None
