"""The token file: names, hashes, roles and prefixes. The tokens themselves are printed once and kept nowhere."""

import base64
import contextlib
import hashlib
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from holdtight.server.principal import ROLES

__all__ = ["Token", "TokenFile", "add_token", "hash_of"]

PREFIX = "ht_"


class Token(NamedTuple):
    name: str
    hash: str
    role: str
    prefixes: tuple[str, ...]


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def read_tokens(path: Path) -> dict[str, Token]:
    """By hash. Raises ValueError with a sentence that says what to do."""
    try:
        status = path.stat()
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"the token file {path} cannot be read: {error}") from error
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"the token file {path} can be written by others: chmod 600 {path}")
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the token file {path} is not TOML: {error}") from error
    unknown = found.keys() - {"token"}
    if unknown or not isinstance(found.get("token", []), list):
        raise ValueError(f"the token file {path} has only [[token]] tables: make them with holdtight token")
    tokens: dict[str, Token] = {}
    names: set[str] = set()
    for at, each in enumerate(found.get("token", []), 1):
        token = _read(each, f"token {at} in {path}")
        if token.name in names or token.hash in tokens:
            raise ValueError(f"{token.name!r} is twice in {path}: remove one of them")
        names.add(token.name)
        tokens[token.hash] = token
    return tokens


def _read(each: Any, where: str) -> Token:
    if not isinstance(each, dict) or each.keys() - {"name", "hash", "role", "prefixes"}:  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(f"{where} must be a table of name, hash, role and prefixes")
    table: dict[str, Any] = each  # pyright: ignore[reportUnknownVariableType]
    name, digest, role = table.get("name"), table.get("hash"), table.get("role")
    prefixes: Any = table.get("prefixes", [])
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise ValueError(f"{where}: name must be a text of 1 to 64 characters")
    if not isinstance(digest, str) or len(digest) != 64 or not all(char in "0123456789abcdef" for char in digest):
        raise ValueError(f"{where}: hash must be the SHA-256 of the token, as holdtight token writes it")
    if role not in ROLES:
        raise ValueError(f"{where}: role must be one of {', '.join(ROLES)}")
    if not isinstance(prefixes, list) or not all(isinstance(each, str) and each for each in prefixes):  # pyright: ignore[reportUnknownVariableType]
        raise ValueError(f"{where}: prefixes must be a list of texts")
    return Token(name, digest, str(role), tuple(prefixes))  # pyright: ignore[reportUnknownArgumentType]


class TokenFile:
    """The tokens that count now. `reload` changes nothing if the file is broken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens = read_tokens(path)

    def reload(self) -> None:
        self.tokens = read_tokens(self.path)

    def find(self, token: str) -> Token | None:
        return self.tokens.get(hash_of(token))


def add_token(path: Path, name: str, role: str, prefixes: tuple[str, ...]) -> str:
    """Makes a token, adds it to the file, which is made if need be, and returns it."""
    known = read_tokens(path) if path.exists() else {}
    if any(each.name == name for each in known.values()):
        raise ValueError(f"{name!r} is in {path} already: remove it there first, or take another name")
    token = PREFIX + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    made = _read({"name": name, "hash": hash_of(token), "role": role, "prefixes": list(prefixes)}, "the token")
    text = path.read_text("utf-8") if known or path.exists() else ""
    lines = ["[[token]]", f"name = {_quoted(made.name)}", f'hash = "{made.hash}"', f'role = "{made.role}"']
    if made.prefixes:
        lines.append(f"prefixes = [{', '.join(map(_quoted, made.prefixes))}]")
    before = path.stat() if path.exists() else None
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            if before is not None and hasattr(os, "fchown"):
                with contextlib.suppress(PermissionError):  # root adds a token to the file of the user of the service
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write((text.rstrip() + "\n\n" if text.strip() else "") + "\n".join(lines) + "\n")
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return token


def _quoted(text: str) -> str:
    """A TOML string: JSON's strings are those of TOML, but for DEL."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
