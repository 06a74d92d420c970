"""What people and programs read of values, events and errors: tables, log lines, plain dictionaries.

Loaded with the first client (see clients/loading.py), not with the package. A table is ASCII, so that every
terminal can show it; log lines and dictionaries have names as they are.
"""

import enum
import math
from typing import TYPE_CHECKING, Any, cast

from holdtight.base.values import Holder, Kind, LockInfo, Waiter

if TYPE_CHECKING:
    from holdtight.events import Event

__all__ = ["error_dict", "event_dict", "log_line", "plain", "table"]


# For programs.

_AS_THEY_ARE = frozenset({str, int, bool})


def plain(value: Any) -> Any:
    """The value in a form that `json.dumps` accepts."""
    if value is None or value.__class__ in _AS_THEY_ARE:
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "_asdict"):  # a named tuple
        return {
            word: each if each is None or each.__class__ in _AS_THEY_ARE else plain(each)
            for word, each in zip(value._fields, value, strict=True)
        }
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in cast(Any, value)]
    if isinstance(value, dict):
        return {str(word): plain(each) for word, each in cast(Any, value).items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no infinity and no NaN
    return value


def event_dict(event: "Event") -> dict[str, Any]:
    return {"event": type(event).__name__} | {word: plain(getattr(event, word)) for word in event.__dataclass_fields__}


def error_dict(error: Any) -> dict[str, Any]:
    found = {"error": type(error).__name__, "code": error.code, "message": error.message}
    words = ("name", "holder", "waited", "nodes", "reason", "cycle", "members", "skipped")
    if isinstance(getattr(error, "error", None), str):
        found["cause"] = error.error
    return found | {word: plain(getattr(error, word)) for word in words if hasattr(error, word)}


# For people.

_MODES = {Kind.EXCLUSIVE: "write", Kind.SHARED: "read", Kind.PERMITS: "permits", Kind.MULTI: "multi"}


def table(info: LockInfo) -> str:
    """A line about the lock, then one for each holder and waiter, in order."""
    lines = [_headline(info)]
    if info.holders or info.waiters:
        lines += _aligned(info)
    if info.holding > len(info.holders):
        lines.append(f"  and {info.holding - len(info.holders)} more holders")
    if info.waiting > len(info.waiters):
        lines.append(f"  and {info.waiting - len(info.waiters)} more waiting")
    lines += [f"  node {_ascii(node)}: {_ascii(said)}" for node, said in (info.nodes or {}).items()]
    return "\n".join(lines)


def _headline(info: LockInfo) -> str:
    what = "free"
    if info.holders:
        kinds = {each.kind for each in info.holders}
        what = "held"
        if kinds == {Kind.SHARED}:
            what = f"held by {_count(max(info.holding, len(info.holders)), 'reader')}"
        elif kinds == {Kind.PERMITS}:
            what = f"{_count(sum(each.n for each in info.holders), 'permit')} held"
            if info.holding > len(info.holders):
                what = f"at least {what}"
    waiting = f", {info.waiting} waiting" if info.waiting else ""
    return f"{_ascii(repr(info.name))}: {what}{waiting}"


def _aligned(info: LockInfo) -> list[str]:
    everybody: list[Holder | Waiter] = [*info.holders, *info.waiters]
    columns = [["", *("holder" for _ in info.holders), *(f"waiter {at + 1}" for at in range(len(info.waiters)))]]
    if any(each.kind is Kind.SHARED for each in everybody):
        columns.append(["mode", *(_MODES[each.kind] for each in everybody)])
    if any(each.kind is Kind.PERMITS for each in everybody):
        columns.append(["permits", *(str(each.n) for each in everybody)])
    words = ("host", "pid", "label", "fence")
    columns += [[word, *(_shown(getattr(each, word, None)) for each in everybody)] for word in words]
    columns.append(["left", *(_left(getattr(each, "expires_in", None)) for each in everybody)])
    if any(each.waits_for for each in info.holders):
        columns.append(["waits for", *(_shown(getattr(each, "waits_for", None)) for each in everybody)])
    columns.append(["owner", *(each.owner for each in everybody)])
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _shown(value: object) -> str:
    return "-" if value is None else _ascii(str(value))


def _left(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


# The log.

_WHOSE = "fence %(fence)s, owner %(owner)s"
_LINES = {
    "Acquired": f"acquired %(name)s after %(waited)s, {_WHOSE}",
    "Waited": "waited %(seconds)s for %(name)s, acquired: %(acquired)s, owner %(owner)s",
    "TimedOut": "timed out on %(name)s after %(waited)s, holder %(holder)s, owner %(owner)s",
    "Queued": "queued for %(name)s at position %(position)s, holder %(holder)s, owner %(owner)s",
    "Failed": "failed to acquire %(name)s after %(waited)s: %(reason)s, owner %(owner)s",
    "DeadlockFound": "deadlock on %(name)s after %(waited)s: %(cycle)s, owner %(owner)s",
    "Renewed": f"renewed %(name)s: %(remaining)s left, {_WHOSE}",
    "RenewalFailed": f"renewal of %(name)s failed: %(cause)s; %(remaining)s left, {_WHOSE}",
    "KeeperLate": "keeper late by %(late)s: leases are renewed too late, and will be lost if that goes on",
    "Forced": f"forced %(name)s: %(reason)s, by %(by)s, {_WHOSE}",
    "HeldLong": f"held %(name)s for %(held)s, and it is still renewed: does its body hang? {_WHOSE}",
    "RefreshFailed": "refresh of %(name)s failed, its stale value stays: %(error)s, owner %(owner)s",
    "Lost": f"lost %(name)s: %(reason)s after %(held)s, {_WHOSE}",
    "Released": f"released %(name)s after %(held)s, {_WHOSE}",
    "Detached": f"detached %(name)s after %(held)s, {_WHOSE}",
    "Downgraded": f"downgraded %(name)s after %(held)s, {_WHOSE}",
    "Degraded": "degraded %(name)s: %(how)s, without the server: %(cause)s, owner %(owner)s",
    "ReleaseFailed": f"release of %(name)s failed: %(cause)s; it ends with its ttl, {_WHOSE}",
    "PreviousExpired": "previous holder of %(name)s never released it: %(previous)s, owner %(owner)s",
    "NodeDown": "node %(node)s is down: %(cause)s",
    "NodeUp": "node %(node)s is up again",
    "FailedOver": "failover: %(by)s has replaced %(server)s, and all leases are checked there",
}
_EXTRA = {
    **{
        word: f"lock_{word}" for word in ("event", "name", "kind", "owner", "fence", "waited", "held", "reason", "node")
    },
    "seconds": "lock_waited",
    "cause": "lock_reason",
    "error": "lock_reason",
}
"""Maps the fields of an event to those of a log record, which are flat and few: a log has one column for each."""
_OWNER_SHOWN = 11
"""The number of characters of an owner that hold the id of its client."""
_SECONDS = frozenset({"waited", "seconds", "held", "late", "remaining"})


def log_line(event: "Event") -> tuple[str, dict[str, str], dict[str, Any]]:
    """Returns the template of the line, which all events of a kind share, its values, and `extra` for the log record.
    The keys of `extra` have a prefix, because a log record has a `name` of its own. Fields that are empty are left
    out."""
    fields = event_dict(event)
    filled = {word: _in_a_line(word, getattr(event, word, value)) for word, value in fields.items()}
    extra = {_EXTRA[word]: value for word, value in fields.items() if word in _EXTRA and value not in (None, "")}
    if "lock_owner" in extra:
        extra["lock_owner"] = extra["lock_owner"][:_OWNER_SHOWN]
    return _LINES.get(fields["event"], "%(event)s %(name)s"), filled, extra


def _in_a_line(word: str, value: Any) -> str:
    if value is None or (word == "fence" and not value):
        return "-"
    if word in _SECONDS:
        return _seconds(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " > ".join(map(str, cast(Any, value)))
    return " ".join(str(value).split())


def _seconds(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f} s"
    return f"{value:.3g} s" if value >= 0.01 or value <= 0 else f"{value * 1000:.2g} ms"
