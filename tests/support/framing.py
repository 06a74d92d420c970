"""Where one RESP value ends in a stream of bytes: all that a proxy needs to know of the protocol."""

from __future__ import annotations

__all__ = ["first_words", "take_values", "value_end"]


def value_end(data: bytes | bytearray, start: int = 0) -> int | None:
    """The position after the value that begins at `start`, or None while it is incomplete.

    RESP2 and RESP3; an attribute counts as part of the value that follows it; data without a type
    byte of the protocol is an inline command, one line.
    """
    missing, at = 1, start
    while missing:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        sign, size = data[at : at + 1], data[at + 1 : line]
        at = line + 2
        missing -= 1
        if sign in b"$!=" and int(size) >= 0:
            at += int(size) + 2
            if at > len(data):
                return None
        elif sign in b"*~>":
            missing += max(int(size), 0)
        elif sign == b"%":
            missing += 2 * int(size)
        elif sign == b"|":
            missing += 2 * int(size) + 1
    return at


def take_values(data: bytearray) -> list[bytes]:
    """Removes all complete values from the front of `data`."""
    values: list[bytes] = []
    start = 0
    while start < len(data) and (end := value_end(data, start)) is not None:
        values.append(bytes(data[start:end]))
        start = end
    del data[:start]
    return values


def first_words(value: bytes, limit: int = 1 << 30) -> list[bytes]:
    """The bulk or simple strings at the front of an array or push; of an inline command, its words."""
    if value[:1] not in b"*>~" or not value:
        return value.split()[:limit]
    at = value.index(b"\r\n") + 2
    words: list[bytes] = []
    while at < len(value) and len(words) < limit and value[at : at + 1] in b"$+":
        line = value.index(b"\r\n", at)
        if value[at : at + 1] == b"+":
            words.append(value[at + 1 : line])
            at = line + 2
        else:
            size = max(int(value[at + 1 : line]), 0)
            words.append(value[line + 2 : line + 2 + size])
            at = line + 4 + size
    return words
