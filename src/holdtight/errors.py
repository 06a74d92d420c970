"""Every error a user can see. The one place for error texts, but those of NotSupported and
WrongTransaction, which are in base/refusals.py.

A message says what happened, to which lock, who holds it, and what to do next; it ends with where to read more. All
errors pickle completely, so that they can cross process pools and task queues.
"""

from collections.abc import Mapping
from typing import Any

from holdtight.base.error_texts import (
    cycle_text,
    lock_named,
    no_majority_text,
    pointed,
    seconds_text,
    skipped_text,
    then,
)
from holdtight.base.values import Holder, LossReason, Member

__all__ = [
    "ClockDrift",
    "DeadlockDetected",
    "FlightFailed",
    "JobSkipped",
    "LeaseLost",
    "LockError",
    "LockTimeout",
    "NotOwner",
    "NotPermitted",
    "NotSupported",
    "OutOfMemory",
    "QueueFull",
    "QuorumNotReached",
    "ScriptError",
    "StaleFence",
    "Unavailable",
    "WrongTransaction",
]


def quotable(error: BaseException) -> str:
    """An error's text without its "See: ...", for use inside another message."""
    return error.message if isinstance(error, LockError) else str(error)


def _rebuild(cls: "type[LockError]", args: tuple[object, ...], state: dict[str, object]) -> "LockError":
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class LockError(Exception):
    """Root of all errors of holdtight."""

    code: str = ""

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        holder: Holder | None = None,
        waited: float | None = None,
        nodes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.waited = waited
        self.nodes: dict[str, str] = dict(nodes or {})

    @property
    def message(self) -> str:
        """The text alone, with names as they are. `str()` is ASCII, and adds where to read more."""
        return super().__str__()

    def as_dict(self) -> dict[str, Any]:
        """What the error carries, in a form that `json.dumps` accepts; `error` is the name of its class."""
        from holdtight.base.showing import error_dict

        return error_dict(self)

    def __str__(self) -> str:
        return pointed(self.message, self.code).encode("ascii", "backslashreplace").decode()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


class LockTimeout(LockError, TimeoutError):
    """The wait ended while another owner still held the lock."""

    code = "LOCK_TIMEOUT"

    @classmethod
    def after(
        cls, name: str, waited: float, holder: Holder | None, position: int, own: str | None = None
    ) -> "LockTimeout":
        """`own` describes the holder if that is the caller itself."""
        whom = f"held by {own or holder or 'another owner'}"
        line = f", {position - 1} ahead of us in line" if position > 1 else ""
        advice = (
            "Release that lease first, pass it along, or use reentrant=True if entering again is meant."
            if own
            else "Wait longer (wait=...), do less under the lock, or look at the holder with inspect()."
        )
        return cls(
            f"lock {name!r} not acquired after {seconds_text(waited)}: {whom}{line}. {advice}",
            name=name,
            holder=holder,
            waited=waited,
        )


class LeaseLost(LockError):
    """The lease is no longer ours: the work that it protected may be running elsewhere. `reason` says why."""

    code = "WATCHDOG_RENEWAL_FAILED"
    reason: LossReason | None = None

    @classmethod
    def because(cls, name: str, reason: LossReason | None, fence: int | None = None) -> "LeaseLost":
        why = reason.text if reason else "it was lost"
        shown = f" (fence {fence})" if fence else ""
        error = cls(
            f"lease on {name!r}{shown} is lost: {why}. Stop the work it protected; "
            "writes made since then are safe only where the resource checked the fence.",
            name=name,
        )
        error.reason = reason
        return error


class NotOwner(LeaseLost):
    """A release or renewal of a lease that is no longer ours."""

    code = "UNLOCK_FAILED"

    @classmethod
    def on(cls, verb: str, name: str, reason: LossReason | None) -> "NotOwner":
        """Without a reason, the caller itself released the lease."""
        if reason is None:
            why = "this lease has been released. Acquire the lock again for more work under it."
        else:
            why = (
                f"it is not ours any more, {reason.text}. The work under it may have overlapped with another holder's: "
                "look at what it wrote. lease.check() before every write tells in time."
            )
        error = cls(f"cannot {verb} {name!r}: {why}", name=name)
        error.reason = reason
        return error


class Unavailable(LockError, ConnectionError):
    """The server could not be reached, or could not answer."""

    code = "CONNECTION_LOST"

    @classmethod
    def because(cls, name: str | None, server: str, cause: str, waited: float | None = None) -> "Unavailable":
        spent = f" after {seconds_text(waited)}" if waited is not None else ""
        return cls(
            then(
                f"{lock_named(name)}no answer from {server}{spent}: {cause}",
                "Whether the lock is free is not known. "
                "Check that the server runs and can be reached from here, then try again.",
            ),
            name=name,
            waited=waited,
            nodes={server: cause},
        )

    @classmethod
    def unacknowledged(cls, name: str | None, server: str, cause: str, waited: float | None = None) -> "Unavailable":
        within = f" within {seconds_text(waited)}" if waited is not None else ""
        return cls(
            then(
                f"{lock_named(name)}{server} granted it, but only {cause}{within}, so it was given back",
                "Check the replicas (`holdtight doctor`, INFO replication), or ask for fewer with acks=.",
            ),
            name=name,
            waited=waited,
            nodes={server: cause},
        )


class NotPermitted(LockError, PermissionError):
    """The server refused our credentials, or the user lacks a permission."""

    code = "NOT_PERMITTED"

    @classmethod
    def because(cls, server: str, answer: str, name: str | None = None) -> "NotPermitted":
        return cls(
            then(
                f"{lock_named(name)}{server} refused: {answer}",
                "Check user and password, and that the user has the rights to commands, keys and channels that locks "
                "need.",
            ),
            name=name,
            nodes={server: answer},
        )


class QuorumNotReached(Unavailable):
    """Too few nodes of a quorum could answer."""

    code = "QUORUM_NOT_REACHED"

    @classmethod
    def among(
        cls, name: str | None, nodes: Mapping[str, str], majority: int, waited: float | None = None
    ) -> "QuorumNotReached":
        return cls(
            no_majority_text(name, nodes, majority, waited),
            name=name,
            waited=waited,
            nodes=nodes,
        )


class ClockDrift(LockError):
    """The grant took so long that no usable time remains."""

    code = "CLOCK_DRIFT"

    @classmethod
    def on(cls, name: str, ttl: float, spent: float) -> "ClockDrift":
        return cls(
            f"lock {name!r}: the grant took {seconds_text(spent)} of a ttl of {ttl:g} s, no usable time remains. "
            "It was released. Use a longer ttl, or find out what delays requests to the server.",
            name=name,
        )


class OutOfMemory(LockError):
    """The server is out of memory and refuses writes."""

    code = "OUT_OF_MEMORY"

    @classmethod
    def because(cls, name: str | None, server: str, answer: str) -> "OutOfMemory":
        return cls(
            f"{lock_named(name)}{server} is out of memory and took no new lock ({answer}). "
            "Raise maxmemory or free memory there; locks already held go on.",
            name=name,
            nodes={server: answer},
        )


class ScriptError(LockError):
    """The key is not one of our locks, or the server could not run a script."""

    code = "SCRIPT_ERROR"

    @classmethod
    def foreign(cls, name: str | None, key: str, answer: str) -> "ScriptError":
        return cls(
            f"{lock_named(name)}the key {key!r} on the server holds something else ({answer}). Nothing was "
            "overwritten. Use another namespace or name, or remove that key if it is not needed.",
            name=name,
        )

    @classmethod
    def of_other_kind(cls, name: str | None, asked: str, found: str) -> "ScriptError":
        return cls(
            f"{lock_named(name)}asked for as {asked}, but the name is in use as {found}. Nothing was changed. "
            "Use one kind for one name: rename one of them, or wait until nobody holds or waits for it.",
            name=name,
        )

    @classmethod
    def because(cls, name: str | None, server: str, answer: str) -> "ScriptError":
        return cls(
            then(
                f"{lock_named(name)}{server} could not run a script: {answer}",
                "Check that Redis 6.2 or newer, or Valkey, answers there, that it takes writes, and that nothing in "
                "between filters commands.",
            ),
            name=name,
            nodes={server: answer},
        )


class DeadlockDetected(LockError):
    """The wait would never end: the holder waits, directly or through others, for us. `cycle` has the names of the
    locks in the circle, `members` what each member holds and waits for."""

    code = "DEADLOCK"
    cycle: tuple[str, ...] = ()
    """The first, which we hold, is also the last."""
    members: tuple[Member, ...] = ()
    """Each member's held lock and awaited lock, beginning with the one that got this error; empty if it is alone."""

    @classmethod
    def with_self(cls, name: str, who: str) -> "DeadlockDetected":
        error = cls(
            f"lock {name!r} is already held by this very {who}: waiting for it would never end. "
            "Use reentrant=True if entering again is meant, or pass the lease along.",
            name=name,
        )
        error.cycle = (name, name)
        return error

    @classmethod
    def with_loop(cls, name: str, holder: str) -> "DeadlockDetected":
        """A blocking call stops the event loop on which the holder depends."""
        error = cls(
            f"lock {name!r} is held by {holder}, and this blocking call stops the event loop of this very thread: "
            "waiting for it would never end. In asyncio code use AsyncLocks (async with), or call blocking code with "
            "asyncio.to_thread().",
            name=name,
        )
        error.cycle = (name, name)
        return error

    @classmethod
    def among(cls, members: tuple[Member, ...], holder: Holder, waited: float) -> "DeadlockDetected":
        name = members[0].waits_for
        error = cls(
            cycle_text(name, list(map(str, members)), waited),
            name=name,
            holder=holder,
            waited=waited,
        )
        error.cycle = (members[0].holds, *(member.waits_for for member in members))
        error.members = members
        return error


class QueueFull(LockError):
    """More waiters are in line than max_waiters allows."""

    code = "QUEUE_FULL"

    @classmethod
    def at(cls, name: str, waiting: int, limit: int) -> "QueueFull":
        said = f"lock {name!r}: {waiting} are waiting already and max_waiters is {limit}. "
        return cls(said + "Shed load, shorten the work under the lock, or raise max_waiters.", name=name)


class StaleFence(LockError):
    """The resource has already seen a higher fence."""

    code = "CONCURRENT_MODIFICATION"

    @classmethod
    def below(cls, name: str, fence: int, highest: int) -> "StaleFence":
        """For the code that guards the resource: refuses a write with `fence`, since `highest` has been seen."""
        return cls(
            f"lock {name!r}: fence {fence} is stale, {highest} has been at the resource. Nothing was written: the lock "
            "has another holder by now. Give up this work; acquire the lock again and read afresh before you write.",
            name=name,
        )


class NotSupported(LockError):
    """The requested operation would be unsafe here; the message says why."""

    code = "NOT_SUPPORTED"

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message, name=name)


class WrongTransaction(LockError):
    """A fence was claimed where the claim would not protect what follows; the message says why."""

    code = "WRONG_TRANSACTION"


class JobSkipped(LockError):
    """A call of `once` with `on_skip="raise"` that did not run; `skipped` says why."""

    code = "JOB_SKIPPED"
    skipped: Any = None

    @classmethod
    def of(cls, skipped: Any) -> "JobSkipped":
        error = cls(skipped_text(skipped), name=skipped.name, holder=skipped.holder)
        error.skipped = skipped
        return error


class FlightFailed(LockError):
    """Another call of `single_flight` computed the value and failed; `error` is its exception, as text."""

    code = "FLIGHT_FAILED"
    error: str = ""

    @classmethod
    def because(cls, name: str, error: str) -> "FlightFailed":
        said = f"flight {name!r}: the call that computed the value failed: {error}. It is tried again after error_ttl; "
        failed = cls(said + "list exceptions that are answers in negative=.", name=name)
        failed.error = error
        return failed
