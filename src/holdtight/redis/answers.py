"""What an error reply means: which of our errors it is, and whether asking again later can help."""

from holdtight.errors import LockError, NotPermitted, OutOfMemory, ScriptError, Unavailable
from holdtight.plan import ServerSaid

__all__ = ["is_passing", "meaning"]

_PASSING = frozenset({"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF"})
_REFUSALS = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})


def is_passing(said: ServerSaid) -> bool:
    """The server cannot answer now but may soon. Never taken for *free*."""
    return said.word in _PASSING


def meaning(said: ServerSaid, *, name: str | None, server: str, key: bytes = b"") -> LockError:
    word = said.word
    text = str(said)
    if word in _PASSING:
        return Unavailable.because(name, server, text)
    if word in _REFUSALS or "AUTH" in text.split(":")[0] or "invalid username-password" in text.lower():
        return NotPermitted.because(server, text, name)
    if word == "OOM" or "OOM command not allowed" in text:
        return OutOfMemory.because(name, server, text)
    if "NOPERM" in text or "can't access" in text or "ACL failure" in text:
        return NotPermitted.because(server, text, name)
    if "WRONGTYPE" in text or "HTFOREIGN" in text:
        return ScriptError.foreign(name, key.decode(errors="replace"), text.replace("HTFOREIGN ", ""))
    return ScriptError.because(name, server, text)
