"""How messages of errors are put together."""

from typing import Any

__all__ = ["EXPLAIN", "lock_named", "pointed", "seconds_text", "skipped_text", "then"]

EXPLAIN = "python -m holdtight explain"
"""The command that prints the section of docs/errors.md about a code: see explain.py."""


def pointed(message: str, code: str | None) -> str:
    """The message as users see it. Only this function knows how a message ends."""
    return then(message, f"See: {EXPLAIN} {code}") if code else message


def then(text: str, more: str) -> str:
    """Appends a sentence to a text that may come from a server and end in any way."""
    text = text.rstrip()
    if text.endswith((".", "!", "?")):
        return f"{text} {more}"
    return f"{text}\n{more}" if "\n" in text else f"{text}. {more}"


def lock_named(name: str | None) -> str:
    return f"lock {name!r}: " if name else ""


def seconds_text(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f} s"
    return f"{value:.3g} s" if value >= 0.01 else f"{value * 1000:.2g} ms"


def skipped_text(skipped: Any) -> str:
    """What a `Skipped` of a job says."""
    whom = f" by {skipped.holder}" if skipped.holder else ""
    said = f"it is running{whom}. That run is enough, or wait for it (wait=...)."
    if skipped.why == "done":
        left = f" It may run again in {seconds_text(skipped.retry_in)}." if skipped.retry_in else ""
        said = f"it has been started{whom}.{left}"
    return f"job {skipped.name!r} skipped: {said}"
