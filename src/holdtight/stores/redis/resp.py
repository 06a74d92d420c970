"""Packs requests; hiredis parses replies."""

from typing import Any

__all__ = ["bulk", "command", "fields_of"]


def bulk(value: bytes | str | int) -> bytes:
    """One argument, encoded."""
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, int):
        value = b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(value), value)


def fields_of(reply: Any) -> dict[bytes, bytes]:
    """A hash, as either protocol gives it."""
    if isinstance(reply, dict):
        return reply  # pyright: ignore[reportUnknownVariableType]
    return dict(zip(reply[::2], reply[1::2], strict=True))


def command(*parts: bytes | str | int) -> bytes:
    """One complete request, encoded."""
    return b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))
