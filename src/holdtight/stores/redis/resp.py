"""Packs requests; hiredis parses replies."""

__all__ = ["bulk", "command"]


def bulk(value: bytes | str | int) -> bytes:
    """One argument, encoded."""
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, int):
        value = b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(value), value)


def command(*parts: bytes | str | int) -> bytes:
    """One complete request, encoded."""
    return b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))
