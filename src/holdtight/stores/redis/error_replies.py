"""Maps error replies to our errors, and says whether a later retry can help."""

import re

from holdtight.base.plan import ServerSaid
from holdtight.base.values import Kind
from holdtight.errors import LockError, NotPermitted, OutOfMemory, ScriptError, Unavailable

__all__ = ["is_passing", "meaning"]

# Patterns, compiled on first use, which is rare. Redis 6.2 wraps the error of a command in a script into a longer text,
# so the code need not come first.
_PASSING = (
    r"(?:^|[ :-])(LOADING|READONLY|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY|NOREPLICAS|MISCONF|UNBLOCKED) "
    r"|max number of clients reached|WAIT cannot be used with replica|non local key in a cluster"
)
_REFUSALS = (
    r"(?:^|[ :-])(NOAUTH|WRONGPASS|NOPERM) |invalid username-password|invalid password|can't (access|run)|ACL failure"
    r"|AUTH .*(called|without)|sent AUTH"
)
_OTHER_KIND = r"HTKIND (an exclusive lock|a read-write lock|a semaphore)"
# The position in our script helps only if the script itself failed.
_WHERE = r"\.?\s+script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.$"
_FULL = r"(?:^|[ :-])OOM |OOM command not allowed"


def is_passing(said: ServerSaid) -> bool:
    """The server cannot answer now but may soon. This never counts as *free*."""
    return re.search(_PASSING, str(said)) is not None


def meaning(
    said: ServerSaid, *, name: str | None, server: str, key: bytes = b"", kind: Kind = Kind.EXCLUSIVE
) -> LockError:
    text = re.sub(_WHERE, "", str(said))
    if found := re.search(_OTHER_KIND, text):
        return ScriptError.of_other_kind(name, kind.text, found[1])
    if is_passing(said):
        return Unavailable.because(name, server, text)
    if re.search(_REFUSALS, text):
        return NotPermitted.because(server, text, name)
    if re.search(_FULL, text):
        return OutOfMemory.because(name, server, text)
    if "WRONGTYPE" in text or "HTFOREIGN" in text:
        return ScriptError.foreign(name, key.decode(errors="replace"), text.replace("HTFOREIGN ", ""))
    return ScriptError.because(name, server, str(said))
