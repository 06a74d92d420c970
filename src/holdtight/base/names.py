"""What a name, a label and a namespace may be."""

__all__ = ["LONGEST_LABEL", "LONGEST_NAME", "PLAIN_NAME", "check_label", "check_name", "check_namespace"]

LONGEST_NAME = 512
PLAIN_NAME = LONGEST_NAME // 4
"""A printable name of so many characters needs no closer look: none takes more than four bytes."""
LONGEST_LABEL = 128


def check_name(name: object, argument: str = "name") -> bytes:
    """Returns the name as UTF-8, or raises before anything is sent."""
    if not isinstance(name, str):
        hint = ': a decorator is written with a name, @locks.lock("name")' if callable(name) else ""
        raise TypeError(f"{argument} must be a str, not {type(name).__name__}{hint}")
    if not name:
        raise ValueError(f"{argument} is empty: a lock needs a name")
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{argument}={name!r} is not valid Unicode text (lone surrogates)") from None
    if len(raw) > LONGEST_NAME:
        raise ValueError(f"{argument} has {len(raw)} bytes of UTF-8, at most {LONGEST_NAME} are allowed")
    if not name.isprintable() and any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        raise ValueError(f"{argument}={name!r} contains control characters")
    return raw


def check_label(label: object) -> str | None:
    """Checks the short text that is stored with a lock for people who inspect it."""
    if label is None:
        return None
    if not isinstance(label, str):
        raise TypeError(f"label must be a str, not {type(label).__name__}")
    raw = check_name(label, "label") if label else b""
    if len(raw) > LONGEST_LABEL:
        raise ValueError(f"label has {len(raw)} bytes of UTF-8, at most {LONGEST_LABEL} are allowed")
    return label or None


def check_namespace(namespace: object) -> str:
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be a str, not {type(namespace).__name__}")
    if not 1 <= len(namespace.encode(errors="replace")) <= 64:
        raise ValueError(f"namespace={namespace!r} must have 1 to 64 bytes")
    if not namespace.isprintable() or any(char in "{}*?[]\\ " for char in namespace):
        raise ValueError(f"namespace={namespace!r} must be printable, without spaces and any of {{}}*?[]\\")
    return namespace
