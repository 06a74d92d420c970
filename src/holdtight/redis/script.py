"""Scripts: read from `lua/`, their header made binding.

The header of a script names its KEYS and ARGV in order; the loader turns those names into locals, so a
header that does not fit its body does not run. A last `...` stands for any number more, which the body finds
in K and A. `call` and `sub` are there too. `--@include x` puts `lua/lib/x.lua`, with what that includes, in that
place, which lets a script answer its fast path before it pays for functions that it will not need.
"""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdtight.redis.resp import bulk

if TYPE_CHECKING:
    from hashlib import sha1
else:
    try:
        from _sha1 import sha1  # without OpenSSL, which takes longer to load than anything of ours
    except ImportError:
        from hashlib import sha1

__all__ = [
    "ADOPT",
    "ATTEMPT",
    "DOWNGRADE",
    "INSPECT",
    "MULTI",
    "RELEASE",
    "RENEW",
    "SHARE",
    "TOUCH",
    "WITHDRAW",
    "Script",
]

_FOLDER = os.path.join(os.path.dirname(__file__), "lua")
_HEADER = re.compile(r"^-- (KEYS|ARGV|RETURN)\s+(\S.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def _read(*path: str) -> str:
    with open(os.path.join(_FOLDER, *path), encoding="utf-8") as file:
        return file.read()


_parts: dict[str, str] = {}


def _part(name: str) -> str:
    if name not in _parts:
        _parts[name] = _with_includes(_read("lib", f"{name}.lua").rstrip("\n"))
    return _parts[name]


def _with_includes(source: str) -> str:
    return _INCLUDE.sub(lambda found: _part(found[1]), source)


class Script:
    """One Lua script, its hash, and requests that run it."""

    def __init__(self, name: str) -> None:
        source = _read(f"{name}.lua")
        header = dict[str, list[str]]()
        for word, rest in _HEADER.findall(source):
            header.setdefault(word, []).append(rest)
        for word in ("KEYS", "ARGV", "RETURN"):
            if word not in header:
                raise ValueError(f"{name}.lua has no {word} line in its header")
        self.name = name
        self.keys = header["KEYS"][0].split()
        self.argv = header["ARGV"][0].split()
        self.open_ended = self.keys[-1] == "..."
        if self.open_ended:
            self.keys.remove("...")
            self.argv.remove("...")
        self.returns = header["RETURN"]
        body = _with_includes(source)
        # Locals are several times faster than the globals and fields they stand for.
        names = "local K, A, call, sub = KEYS, ARGV, redis.call, string.sub\n"
        for words, table in ((self.keys, "K"), (self.argv, "A")):
            if words:
                places = ", ".join(f"{table}[{i + 1}]" for i in range(len(words)))
                names += f"local {', '.join(words)} = {places}\n"
        self.body = (names + _COMMENT.sub("", body)).encode("ascii")
        self.sha = sha1(self.body, usedforsecurity=False).hexdigest()
        self._by_hash = bulk("EVALSHA") + bulk(self.sha)
        self._whole = bulk("EVAL") + bulk(self.body)

    def head(self, *keys: bytes) -> bytes:
        """The start of a request: everything before the arguments."""
        if len(keys) != len(self.keys):
            raise ValueError(f"{self.name}.lua takes {len(self.keys)} keys, not {len(keys)}")
        words = 3 + len(self.keys) + len(self.argv)
        return b"*%d\r\n" % words + self._by_hash + bulk(len(keys)) + b"".join(map(bulk, keys))

    def whole(self, request: bytes) -> bytes:
        """The same request with the script itself in it, for a server that does not know its hash."""
        return request.replace(self._by_hash, self._whole, 1)

    def request(self, keys: Sequence[bytes], *args: bytes | str | int) -> bytes:
        if self.open_ended:
            head = b"*%d\r\n" % (3 + len(keys) + len(args)) + self._by_hash + bulk(len(keys))
            return head + b"".join(map(bulk, keys)) + b"".join(map(bulk, args))
        if len(args) != len(self.argv):
            raise ValueError(f"{self.name}.lua takes {len(self.argv)} arguments, not {len(args)}")
        return self.head(*keys) + b"".join(map(bulk, args))


ATTEMPT = Script("attempt")
SHARE = Script("share")
RELEASE = Script("release")
RENEW = Script("renew")
WITHDRAW = Script("withdraw")
TOUCH = Script("touch")
ADOPT = Script("adopt")
DOWNGRADE = Script("downgrade")
INSPECT = Script("inspect")
MULTI = Script("multi")
