"""Decides what a failed socket means for the request on it."""

import errno

import hiredis

from holdtight.base.plan import CLOSED_BY_SERVER, NO_ANSWER, LinkDown

__all__ = ["broken", "cause_of", "closed_by_server", "is_silence", "is_tls_wait", "unopened"]

_SILENT = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ETIMEDOUT)


def is_silence(error: OSError) -> bool:
    return isinstance(error, (BlockingIOError, TimeoutError)) or error.errno in _SILENT


def is_tls_wait(error: OSError) -> bool:
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def cause_of(error: OSError) -> str:
    if is_silence(error):
        return NO_ANSWER
    return error.strerror or str(error) or type(error).__name__


def broken(error: OSError | hiredis.ProtocolError) -> LinkDown:
    """`stale`: a broken connection may have died while idle, so a new one may work. A timeout says no such thing."""
    if isinstance(error, OSError):
        silent = is_silence(error)
        return LinkDown(cause_of(error), sent=True, stale=not silent, silent=silent)
    return LinkDown(f"what answers is not a Redis or Valkey server ({error})", sent=True)


def unopened(error: OSError) -> LinkDown:
    """The error for a connection that could not be opened: nothing was sent."""
    return LinkDown(cause_of(error), sent=False, silent=is_silence(error))


def closed_by_server() -> LinkDown:
    return LinkDown(CLOSED_BY_SERVER, sent=True, stale=True)
