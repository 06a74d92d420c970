"""What the log says while the lock server fails: a line for each kind of failure every ten seconds, and no names."""

import logging
import time

from holdtight.errors import LockError

__all__ = ["Trouble"]

EVERY = 10.0
_log = logging.getLogger("holdtight.server")


class Trouble:
    def __init__(self) -> None:
        self._said: dict[str, tuple[float, int]] = {}
        """By code: when the last line was written, and how many requests failed since then."""

    def note(self, request: str, error: LockError) -> None:
        now = time.monotonic()
        said, more = self._said.get(error.code, (float("-inf"), 0))
        if now < said + EVERY:
            self._said[error.code] = said, more + 1
            return
        self._said[error.code] = now, 0
        cause = str(error.__cause__ or error.message)
        if error.name:
            for form in (repr(error.name)[1:-1], error.name):
                cause = cause.replace(form, "...")
        since = f"; {more} more since the last line" if more else ""
        _log.warning(
            "%s: the lock server failed a request, the latest of which is %s%s: %s", error.code, request, since, cause
        )
