"""Builds the messages of errors."""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "EXPLAIN",
    "cycle_text",
    "lock_named",
    "no_majority_text",
    "pointed",
    "seconds_text",
    "skipped_text",
    "then",
]

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
    """The message for a `Skipped` of a job."""
    whom = f" by {skipped.holder}" if skipped.holder else ""
    said = f"it is running{whom}. To wait for that run, pass wait=...."
    if skipped.why == "done":
        left = f" It may run again in {seconds_text(skipped.retry_in)}." if skipped.retry_in else ""
        said = f"it has been started{whom}.{left}"
    return f"job {skipped.name!r} skipped: {said}"


def cycle_text(name: str, members: list[str], waited: float) -> str:
    """The message of a DeadlockDetected. The first member is the one that gets the error."""
    lines = [f"  {member}" for member in members]
    lines[0] += "  <- this one"
    how = "Each of these waits for the next, and the last for the first" if lines[1:] else "It waits for itself"
    return (
        f"deadlock: lock {name!r} would never be acquired (waited {seconds_text(waited)}). {how}:\n"
        + "\n".join(lines)
        + "\n"
        "This wait was ended so that the others can go on: release what you hold, then try again. To avoid it, "
        "take locks in the same order everywhere, take them all at once with multi(), or use reentrant=True where "
        "a holder enters again."
    )


def no_majority_text(name: str | None, nodes: Mapping[str, str], majority: int, waited: float | None) -> str:
    spent = f" after {seconds_text(waited)}" if waited is not None else ""
    said = "".join(f"\n  {node}: {answer}" for node, answer in nodes.items())
    advice = ""
    if any("restart guard" in answer for answer in nodes.values()):
        advice = (
            " A node that has just started votes once max_ttl has passed; if no lock can have been held when it "
            "started, bless() the quorum."
        )
    return (
        f"{lock_named(name)}no majority{spent}: {majority} of {len(nodes)} nodes must vote for it, and too few could."
        f"{said}\nWhether the lock is free is not known. Bring the nodes back, then try again.{advice}"
    )
