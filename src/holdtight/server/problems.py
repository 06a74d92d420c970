"""Errors as answers: `application/problem+json`."""

from typing import Any

from holdtight import errors
from holdtight.server.shapes import holder_dict

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
        "name": error.name,
        "holder": holder_dict(error.holder) if error.holder is not None else None,
        "reason": reason.value if reason is not None else None,
        "waited": error.waited,
    }
    if isinstance(error, errors.DeadlockDetected):
        about["cycle"] = list(error.cycle)
    headers = (("retry-after", "1"),) if status == 503 else ()
    detail = error.message
    if status == 503:
        # A server's address and its words are for operators: they are in the log.
        detail = {
            "CONNECTION_LOST": "the lock server does not answer; whether the lock is free is not known. Try again.",
            "OUT_OF_MEMORY": "the lock server is out of memory and takes no new lock. Locks already held go on.",
            "NOT_PERMITTED": "the lock server refuses this service a right that it needs.",
        }.get(error.code, detail)
    return Problem(status, error.code, detail, headers=headers, **about)
