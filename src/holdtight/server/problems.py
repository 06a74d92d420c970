"""Errors as answers: `application/problem+json`."""

import re
from typing import Any

from holdtight import errors
from holdtight.base.error_texts import seconds_text
from holdtight.base.values import Holder
from holdtight.server.shapes import holder_dict, owner_digits

__all__ = ["Problem", "bad", "problem_of"]

TITLES = {
    400: "Bad request",
    401: "Unauthenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Not supported",
    423: "Locked",
    429: "Too many requests",
    431: "Header fields too large",
    500: "Internal error",
    503: "Service unavailable",
}
_STATUS: dict[type[errors.LockError], int] = {
    errors.LockTimeout: 423,
    errors.DeadlockDetected: 409,
    errors.ScriptError: 409,
    errors.LeaseLost: 410,
    errors.NotOwner: 410,
    errors.NotSupported: 422,
    errors.QueueFull: 429,
    errors.Unavailable: 503,
    errors.OutOfMemory: 503,
    errors.ClockDrift: 503,
    errors.NotPermitted: 503,
}


class Problem(Exception):
    """An answer that is not a success. `about` has what else is known: name, holder, reason."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: tuple[tuple[str, str], ...] = (), **about: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
        self.about = about

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        found.update({key: value for key, value in self.about.items() if value is not None})
        return found


def bad(detail: str) -> Problem:
    """`detail` begins with the member that is wrong."""
    return Problem(400, "BAD_REQUEST", detail)


def problem_of(error: errors.LockError) -> Problem:
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    reason = getattr(error, "reason", None)
    about: dict[str, Any] = {
        "name": error.name or None,
        "holder": holder_dict(error.holder) if error.holder is not None else None,
        "reason": reason.value if reason is not None else None,
        "waited": None if error.waited is None else round(error.waited, 6),
    }
    if isinstance(error, errors.DeadlockDetected):
        about["cycle"] = list(error.cycle)
    headers = (("retry-after", "1"),) if status == 503 else ()
    detail = _detail(error)
    if status == 503:
        # A server's address and its words are for operators: they are in the log.
        detail = {
            "CONNECTION_LOST": "the lock server does not answer; whether the lock is free is not known. Try again."
            if error.name
            else "the lock server does not answer.",
            "OUT_OF_MEMORY": "the lock server is out of memory and takes no new lock. Locks already held go on.",
            "NOT_PERMITTED": "the lock server refuses this service a right that it needs.",
        }.get(error.code, detail)
    return Problem(status, error.code, detail, headers=headers, **about)


def _detail(error: errors.LockError) -> str:
    """In words of HTTP, with owners as looks show them: those of the library are for its own callers."""
    name = error.name
    match error:
        case errors.LockTimeout():
            ahead = re.search(r", \d+ ahead of us in line", error.message)
            whom = _who(error.holder) if error.holder is not None else "another owner"
            waited = seconds_text(error.waited or 0.0)
            said = f"lock {name!r} not acquired after {waited}: held by {whom}{ahead[0] if ahead else ''}. "
            return said + "Wait longer (wait), do less under the lock, or look at its holder (GET /v1/lock)."
        case errors.DeadlockDetected():
            around = " -> ".join(map(repr, error.cycle)) or repr(name)
            said = f"deadlock: lock {name!r} would never be acquired: each of these is held by a client that waits for "
            return said + f"the next ({around}). Release what you hold, then try again; take locks in the same order."
        case errors.NotOwner() | errors.LeaseLost():
            reason = getattr(error, "reason", None)
            why = f": {reason.text}" if reason is not None else ""
            said = f"lock {name!r} is not held by this lease any more{why}. "
            return said + "Work under it may have overlapped with another holder's: look at what it wrote."
        case errors.QueueFull():
            return error.message.partition(". ")[0] + ". Send fewer at once, or do less under the lock."
        case _:
            return error.message


def _who(holder: Holder) -> str:
    """As the library says it, but for the owner."""
    if holder.host:
        return str(holder)
    whole, _, rest = str(holder).partition("...")
    return f"owner {owner_digits(holder.owner)}{rest}" if rest or whole.startswith("owner") else whole
