"""Loads the scripts in `lua/` and enforces their headers.

The header of a script names its KEYS and ARGV in order. The loader turns those names into locals, so a script whose
header does not fit its body fails. An argument in brackets is optional, and nil if left out. A final `...` stands for
any number of further values, which the body finds in K and A. `call` and `sub` are locals too. `--@include x` inserts
`lua/lib/x.lua`, with its own includes, at that place: a script can finish its fast path before it pays for functions
that the fast path does not need. Names and locals that are used only after a line `--@rest` cost the fast path nothing
either. `--@script x` inserts the whole of `lua/x.lua`, for a script that does more with its reply.

The loader also replaces macros: QUEUE, WAITERS, HOLDERS and WATCHERS by the suffixes of those keys (`keys.py`), TAIL_MS
and the like by their numbers (`stores/times.py`), and OWNER_OF(value) and the like by that field of the value
(`fields.py`). INBOX_OF(entry, size) and AFTER_INBOX_OF(entry, size) take the size of the inbox too.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdtight.stores.redis.fields import FIELDS, INBOX_AT
from holdtight.stores.redis.keys import BESIDE
from holdtight.stores.redis.resp import bulk
from holdtight.stores.times import AUDIT_MS, CLAIM_MS, FENCES, FRESH_MS, HEARTBEAT_MS, SPOIL_MS, SWEEP, TAIL_MS

if TYPE_CHECKING:
    from hashlib import sha1
else:
    try:
        from _sha1 import sha1  # avoids OpenSSL, which takes longer to load than any module of ours
    except ImportError:
        from hashlib import sha1

__all__ = [
    "ADOPT",
    "ATTEMPT",
    "DOWNGRADE",
    "EVALSHA_WORD",
    "INSPECT",
    "MULTI",
    "RELEASE",
    "RENEW",
    "SCRIPTS",
    "SHARE",
    "TOUCH",
    "WITHDRAW",
    "Script",
    "attempt_script",
]

_FOLDER = os.path.join(os.path.dirname(__file__), "lua")
_HEADER = r"(?m)^-- (KEYS|ARGV|RETURN)\s+(\S.*)$"
_INCLUDE = r"(?m)^--@include (\w+)$"
_SCRIPT = r"(?m)^--@script (\w+)$"
_COMMENT = r"(?m)^\s*--.*\n"
_REST = "--@rest\n"
_MACROS = {
    **{macro: f"'{ending}'" for macro, ending in BESIDE.items()},
    "TAIL_MS": str(TAIL_MS),
    "TAIL_TEXT": f"'{TAIL_MS}'",
    "CLAIM_MS": str(CLAIM_MS),
    "FRESH_MS": str(FRESH_MS),
    "HEARTBEAT_MS": str(HEARTBEAT_MS),
    "SWEEP_SIZE": str(SWEEP),
    "AUDIT_MS": str(AUDIT_MS),
    "SPOIL_MS": str(SPOIL_MS),
    "RANGE_SIZE": str(FENCES),
    "FENCE_AT": str(FIELDS["FENCE_OF"][0]),
    "SHARED_FENCE_AT": str(FIELDS["SHARED_FENCE_OF"][0]),
}
_MACRO = rf"\b({'|'.join(_MACROS)})\b"
_FIELD = r"\b([A-Z_]+_OF)\((\w+(?:\[[^\]]+\])?)\)"
_INBOX = r"\b(AFTER_)?INBOX_OF\((\w+), (\w+(?:\(\w+\))?)\)"


_files: dict[str, str] = {}


def _read(path: str) -> str:
    """The text of a file, which is opened once."""
    if path not in _files:
        with open(os.path.join(_FOLDER, path), encoding="utf-8") as file:
            _files[path] = file.read()
    return _files[path]


def _fetch(path: str) -> None:
    """Reads a file and those that it inserts."""
    if path not in _files:
        for line in _read(path).splitlines():
            if line.startswith("--@include "):
                _fetch(f"lib/{line[11:]}.lua")
            elif line.startswith("--@script "):
                _fetch(f"{line[10:]}.lua")


_parts: dict[str, str] = {}


def _part(name: str) -> str:
    if name not in _parts:
        _parts[name] = _with_includes(_read(f"lib/{name}.lua").rstrip("\n"))
    return _parts[name]


def _with_includes(source: str) -> str:
    whole = re.sub(_SCRIPT, lambda found: _read(f"{found[1]}.lua").replace(_REST, ""), source)
    return re.sub(_INCLUDE, lambda found: _part(found[1]), whole)


SCRIPTS: "list[Script]" = []
"""All scripts of the modules that are loaded so far."""


def expanded(source: str) -> str:
    """The source with its includes and macros expanded."""
    whole = re.sub(_MACRO, lambda found: _MACROS[found[0]], _with_includes(source))
    return re.sub(_FIELD, _field, re.sub(_INBOX, _inbox, whole))


def _field(found: re.Match[str]) -> str:
    first, last = FIELDS[found[1]]
    return f"sub({found[2]}, {first})" if last is None else f"sub({found[2]}, {first}, {last})"


def _inbox(found: re.Match[str]) -> str:
    after, entry, size = found.groups()
    return f"sub({entry}, {INBOX_AT} + {size})" if after else f"sub({entry}, {INBOX_AT}, {INBOX_AT - 1} + {size})"


class Script:
    """One Lua script, its hash, and requests that run it. The file is read with the first client (see
    clients/loading.py), or on first use. The first use expands its includes and macros: a program pays for the scripts
    that it runs."""

    keys: list[str]
    argv: list[str]
    needed: int
    """How many arguments are required."""
    returns: list[str]
    open_ended: bool
    body: bytes
    sha: str
    start: bytes
    """The start of a request with the required arguments: everything before the keys."""
    longest_start: bytes
    """The same for a request that also has all optional arguments."""
    longer_start: bytes
    """The same for a request that also has the first optional argument."""
    _by_hash: bytes
    _by_body: bytes

    def __init__(self, name: str) -> None:
        self.name = name
        SCRIPTS.append(self)

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str):
            if attribute not in Script.__annotations__:
                raise AttributeError(attribute)
            self.load()
            return self.__dict__[attribute]

    def fetch(self) -> None:
        """Reads the files, so that `load` needs none."""
        _fetch(f"{self.name}.lua")

    def load(self) -> None:
        """Makes the requests, unless they were made before."""
        if "longer_start" in self.__dict__:  # the attribute that is set last
            return
        name = self.name
        source = _read(f"{name}.lua")
        header = dict[str, list[str]]()
        for word, rest in re.findall(_HEADER, source):
            header.setdefault(word, []).append(rest)
        for word in ("KEYS", "ARGV", "RETURN"):
            if word not in header:
                raise ValueError(f"{name}.lua has no {word} line in its header")
        # Each attribute is complete when it is set: another thread may load the same script at the same time.
        keys = header["KEYS"][0].split()
        argv = [word.strip("[]") for word in header["ARGV"][0].split()]
        open_ended = keys[-1] == "..."
        if open_ended:
            keys.remove("...")
            argv.remove("...")
        self.keys, self.argv, self.open_ended = keys, argv, open_ended
        self.returns = header["RETURN"]
        whole = self.transformed(expanded(source))
        first, _, rest = (re.sub(_COMMENT, "", part) for part in whole.partition(_REST))
        used = set(re.findall(r"\w+", first if rest else source))
        # Locals are several times faster than the globals and fields they stand for.
        body = "local K, A, call, sub = KEYS, ARGV, redis.call, string.sub\n"
        body += self._names(used.__contains__) + first
        if rest:
            # A separate function: Lua allocates its many locals only when it is called, not with every run.
            body += f"return (function()\n{self._names(lambda name: name not in used)}{rest}end)()\n"
        self.body = body.encode("ascii")
        self.sha = sha1(self.body, usedforsecurity=False).hexdigest()
        self._by_hash = bulk("EVALSHA") + bulk(self.sha)
        self._by_body = bulk("EVAL") + bulk(self.body)
        self.needed = len(self.argv) - header["ARGV"][0].count("[")
        most = len(self.argv)
        self.start, self.longest_start = map(self._start, (self.needed, most))
        self.longer_start = self._start(min(self.needed + 1, most))

    def transformed(self, source: str) -> str:
        """The source as it is sent. Another form of the same script changes it (stores/redis/slots.py)."""
        return source

    def _start(self, arguments: int) -> bytes:
        return b"*%d\r\n" % (3 + len(self.keys) + arguments) + self._by_hash + bulk(len(self.keys))

    def _names(self, wanted: Callable[[str], bool]) -> str:
        """Declares locals for the wanted names of the header."""
        lines = ""
        for names, table in ((self.keys, "K"), (self.argv, "A")):
            chosen = {name: f"{table}[{at}]" for at, name in enumerate(names, 1) if wanted(name)}
            if chosen:
                lines += f"local {', '.join(chosen)} = {', '.join(chosen.values())}\n"
        return lines

    def head(self, *keys: bytes) -> bytes:
        """The start of a request: everything before the arguments."""
        if len(keys) != len(self.keys):
            raise ValueError(f"{self.name}.lua takes {len(self.keys)} keys, not {len(keys)}")
        return self.start + b"".join(map(bulk, keys))

    def with_body(self, request: bytes) -> bytes:
        """The same request with the script's body in it."""
        return request.replace(self._by_hash, self._by_body, 1)

    def request(self, keys: Sequence[bytes], *args: bytes | str | int) -> bytes:
        if self.open_ended:
            head = b"*%d\r\n" % (3 + len(keys) + len(args)) + self._by_hash + bulk(len(keys))
            return head + b"".join(map(bulk, keys)) + b"".join(map(bulk, args))
        if len(args) != self.needed:
            raise ValueError(f"{self.name}.lua takes {self.needed} arguments, not {len(args)}")
        return self.head(*keys) + b"".join(map(bulk, args))


ATTEMPT = Script("attempt")
SHARE = Script("attempt_shared")
RELEASE = Script("release")
RENEW = Script("renew")
WITHDRAW = Script("withdraw")
TOUCH = Script("touch")
ADOPT = Script("adopt")
DOWNGRADE = Script("downgrade")
INSPECT = Script("inspect")
MULTI = Script("multi")


def attempt_script(cohort: bool) -> Script:
    if not cohort:
        return ATTEMPT
    from holdtight.stores.redis.cohort import COHORT

    return COHORT


# A server that was restarted, or told to forget, does not know the hashes of scripts: it answers NOSCRIPT.

EVALSHA_WORD = b"\r\n$7\r\nEVALSHA\r\n$40\r\n"


def is_unknown(reply: object) -> bool:
    """Whether an error reply says that the server does not know the script. Nothing has run then."""
    return str(reply).startswith("NOSCRIPT")


def with_missing_script(request: bytes, reply: object) -> bytes | None:
    """The request to send again after this error reply, with the script that the server lacks; None if it says anything
    else."""
    return with_script_body(request) if is_unknown(reply) else None


def with_missing_scripts(requests: Sequence[bytes], replies: Sequence[Any]) -> dict[int, bytes]:
    """For several requests: those to send again, by their index."""
    found: dict[int, bytes] = {}
    for at, reply in enumerate(replies):
        if isinstance(reply, Exception) and (again := with_missing_script(requests[at], reply)) is not None:
            found[at] = again
    return found


def with_script_body(request: bytes) -> bytes:
    """The same request with its script in it; unchanged if it names none by its hash."""
    found = request.find(EVALSHA_WORD, 0, 40)
    if found < 0:
        return request
    start = found + len(EVALSHA_WORD)
    sha = request[start : start + 40].decode()
    return next((script.with_body(request) for script in SCRIPTS if script.__dict__.get("sha") == sha), request)
