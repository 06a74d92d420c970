"""What the ready-made jobs tell their callers."""

from typing import Any, Literal, NamedTuple

from holdtight.base.values import Holder

__all__ = ["Leadership", "Peek", "Run", "Skipped"]


class Skipped(NamedTuple):
    """A call of `once` that did not run. False in a condition.

    Options:
        name: the name of the lock.
        why: "running" while another call runs, "done" if one has started within `at_least`, or for this occurrence.
        holder: the other call: its host, pid, label and fence, as far as they are known.
        since: when that call started, in seconds of the server's time of day; None if it is not known.
        retry_in: seconds until the record of that call ends; None if there is no record.

    Example:
        >>> @locks.once("weekly", at_least="20h")
        ... def weekly():
        ...     return "ran"
        >>> weekly(), weekly().why
        ('ran', 'done')
        >>> bool(weekly()), 71_000 < weekly().retry_in <= 72_000
        (False, True)
    """

    name: str
    why: Literal["running", "done"]
    holder: Holder | None = None
    since: float | None = None
    retry_in: float | None = None

    def __bool__(self) -> bool:
        return False

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        from holdtight.base.showing import plain

        found: dict[str, Any] = plain(self)
        return found


class Run(NamedTuple):
    """The last run of a job under `once`, from its record.

    Options:
        state: "running", "done" if it returned, "failed" if it raised, was cancelled or killed, or lost its lease.
        host: the machine that ran it.
        pid: its process.
        label: the text that it gave.
        fence: the fence of its lease.
        started: when it started, in seconds of the server's time of day.
        seconds: how long it ran; None if that is not known.
        error: for a failed run the exception as "module.Type: text", or why there is none; otherwise None.

    Example:
        >>> @locks.once("nightly", at_least="20h")
        ... def nightly():
        ...     return "ran"
        >>> _ = nightly()
        >>> nightly.last().state, nightly.last().error
        ('done', None)
    """

    state: Literal["running", "done", "failed"]
    host: str | None
    pid: int | None
    label: str | None
    fence: int
    started: float
    seconds: float | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        from holdtight.base.showing import plain

        found: dict[str, Any] = plain(self)
        return found


class Peek(NamedTuple):
    """What `single_flight` has stored.

    Options:
        value: the value, or the exception that is stored as an answer (`negative`).
        age: seconds since it was computed, by the server's clock; after `expire()`, seconds from its ttl on.
        state: "fresh", or "stale" once its ttl is over.

    Example:
        >>> @locks.single_flight("cube:{number}", ttl=60)
        ... def cube(number):
        ...     return number**3
        >>> _ = cube(3)
        >>> cube.peek(3).value, cube.peek(3).state, cube.peek(4)
        (27, 'fresh', None)
    """

    value: Any
    age: float
    state: Literal["fresh", "stale"]


class Leadership(NamedTuple):
    """Who leads, as seen from outside: a hint, never exclusion.

    Options:
        fence: the fence of the term; larger in every later one.
        owner: the id of the acquisition.
        host: the leader's machine; None if its client has left no record.
        pid: its process.
        label: the text that it gave, or proclaimed.
        since: when the term began, in seconds of the server's time of day.

    Example:
        >>> with locks.leader("poller", label="10.0.0.5:80") as term:
        ...     seen = locks.leader("poller").current()
        ...     seen.label, seen.fence == term.fence
        ('10.0.0.5:80', True)
    """

    fence: int
    owner: str
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    since: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        from holdtight.base.showing import plain

        found: dict[str, Any] = plain(self)
        return found
