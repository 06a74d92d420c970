"""Packing requests. Parsing is hiredis's work."""

__all__ = ["bulk", "command"]


def bulk(value: bytes | str | int) -> bytes:
    """One argument as it goes on the wire."""
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, int):
        value = b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(value), value)


def command(*words: bytes | str | int) -> bytes:
    """One whole request."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))
