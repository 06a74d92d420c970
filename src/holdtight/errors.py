"""Every error a user can see. The one place for error texts.

A message says what happened, to which lock, who holds it, and what to do next. All errors pickle,
so that they cross process pools and task queues whole.
"""

from collections.abc import Mapping

from holdtight.values import Holder, LossReason, Member

__all__ = [
    "ClockDrift",
    "DeadlockDetected",
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
]


def _rebuild(cls: "type[LockError]", args: tuple[object, ...], state: dict[str, object]) -> "LockError":
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class LockError(Exception):
    """Root of all errors of holdtight."""

    code: str | None = None

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

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


class LockTimeout(LockError, TimeoutError):
    """The wait ended and somebody else still held the lock."""

    code = "LOCK_TIMEOUT"

    @classmethod
    def after(cls, name: str, waited: float, holder: Holder | None, position: int) -> "LockTimeout":
        whom = f"held by {holder}" if holder else "held by another owner"
        line = f", {position - 1} ahead of us in line" if position > 1 else ""
        return cls(
            f"lock {name!r} not acquired after {waited:.3g} s: {whom}{line}. "
            "Wait longer (wait=…), do less under the lock, or look at the holder with inspect().",
            name=name,
            holder=holder,
            waited=waited,
        )


class LeaseLost(LockError):
    """The lease is not ours any more: what it protected may be running elsewhere."""

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
    """Release or renewal of what is no longer ours."""

    code = "UNLOCK_FAILED"

    @classmethod
    def on(cls, verb: str, name: str, reason: LossReason | None, detail: str | None = None) -> "NotOwner":
        why = detail or (reason.text if reason else "it was released before")
        error = cls(
            f"cannot {verb} {name!r}: it is not ours any more, {why}. "
            "The work under it may have overlapped with another holder's.",
            name=name,
        )
        error.reason = reason
        return error


class Unavailable(LockError, ConnectionError):
    """The server could not be reached, or could not answer."""

    code = "CONNECTION_LOST"

    @classmethod
    def because(cls, name: str | None, server: str, cause: str, waited: float | None = None) -> "Unavailable":
        what = f"lock {name!r}: " if name else ""
        spent = f" after {waited:.3g} s" if waited is not None else ""
        return cls(
            f"{what}no answer from {server}{spent}: {cause}. Whether the lock is free is not known. "
            "Check that the server runs and can be reached from here, then try again.",
            name=name,
            waited=waited,
            nodes={server: cause},
        )


class NotPermitted(LockError, PermissionError):
    """The server refused our credentials, or they lack a right."""

    code = "NOT_PERMITTED"

    @classmethod
    def because(cls, server: str, answer: str, name: str | None = None) -> "NotPermitted":
        what = f"lock {name!r}: " if name else ""
        return cls(
            f"{what}{server} refused: {answer}. Check user and password, and that the user may run "
            "what docs/permissions.md lists on the namespace's keys and channels.",
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
        what = f"lock {name!r}: " if name else ""
        spent = f" after {waited:.3g} s" if waited is not None else ""
        said = "".join(f"\n  {node}: {answer}" for node, answer in nodes.items())
        guarded = any("restart guard" in answer for answer in nodes.values())
        advice = (
            " A node that has just started votes once max_ttl has passed; if no lock can have been held when it "
            "started, bless() the quorum."
            if guarded
            else ""
        )
        return cls(
            f"{what}no majority{spent}: {majority} of {len(nodes)} nodes must vote for it, and too few could.{said}\n"
            f"Whether the lock is free is not known. Bring the nodes back, then try again.{advice}",
            name=name,
            waited=waited,
            nodes=nodes,
        )


class ClockDrift(LockError):
    """Too little of the ttl was left once the grant was complete."""

    code = "CLOCK_DRIFT"

    @classmethod
    def on(cls, name: str, ttl: float, spent: float) -> "ClockDrift":
        return cls(
            f"lock {name!r}: the grant took {spent:.3g} s of a ttl of {ttl:g} s, nothing safe is left of it. "
            "It was given back. Use a longer ttl.",
            name=name,
        )


class OutOfMemory(LockError):
    """The server is out of memory and refuses writes."""

    code = "OUT_OF_MEMORY"

    @classmethod
    def because(cls, name: str | None, server: str, answer: str) -> "OutOfMemory":
        return cls(
            f"lock {name!r}: {server} is out of memory and took no new lock ({answer}). "
            "Raise maxmemory or free memory there; locks already held go on.",
            name=name,
            nodes={server: answer},
        )


class ScriptError(LockError):
    """The key is not a lock of ours, or the server could not run a script."""

    code = "SCRIPT_ERROR"

    @classmethod
    def foreign(cls, name: str | None, key: str, answer: str) -> "ScriptError":
        return cls(
            f"lock {name!r}: the key {key!r} on the server holds something else ({answer}). Nothing was "
            "overwritten. Use another namespace or name, or remove that key if it is not needed.",
            name=name,
        )

    @classmethod
    def of_other_kind(cls, name: str | None, asked: str, found: str) -> "ScriptError":
        return cls(
            f"lock {name!r}: asked for as {asked}, but the name is in use as {found}. Nothing was changed. "
            "Use one kind for one name: rename one of them, or wait until nobody holds or waits for it.",
            name=name,
        )

    @classmethod
    def because(cls, name: str | None, server: str, answer: str) -> "ScriptError":
        return cls(f"lock {name!r}: {server} could not run a script: {answer}", name=name)


class DeadlockDetected(LockError):
    """Waiting would never end: the holder waits, directly or not, for us."""

    code = "DEADLOCK"
    cycle: tuple[str, ...] = ()
    """The names around the cycle; the first, which we hold, is also the last."""
    members: tuple[Member, ...] = ()
    """Who holds what and waits for what, beginning with the one that got this error; empty if that one is alone."""

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
    def among(cls, members: tuple[Member, ...], holder: Holder, waited: float) -> "DeadlockDetected":
        name = members[0].waits_for
        lines = [f"  {member}" for member in members]
        lines[0] += "  ← this one"
        how = "Each of these waits for the next, and the last for the first" if lines[1:] else "It waits for itself"
        error = cls(
            f"deadlock: lock {name!r} would never be acquired (waited {waited:.3g} s). {how}:\n"
            + "\n".join(lines)
            + "\n"
            "This wait was ended so that the others can go on: release what you hold, then try again. To avoid it, "
            "take locks in the same order everywhere, take them all at once with multi(), or use reentrant=True where "
            "a holder enters again.",
            name=name,
            holder=holder,
            waited=waited,
        )
        error.cycle = (members[0].holds, *(member.waits_for for member in members))
        error.members = members
        return error


class QueueFull(LockError):
    """More are waiting than max_waiters allows."""

    code = "QUEUE_FULL"

    @classmethod
    def at(cls, name: str, waiting: int, limit: int) -> "QueueFull":
        return cls(
            f"lock {name!r}: {waiting} are waiting already and max_waiters is {limit}. "
            "Shed load, shorten the work under the lock, or raise max_waiters.",
            name=name,
        )


class StaleFence(LockError):
    """A higher fence has been at the resource."""

    code = "CONCURRENT_MODIFICATION"


class NotSupported(LockError):
    """Asked for something that would be unsafe here; the message says why."""

    code = "NOT_SUPPORTED"

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message, name=name)

    @classmethod
    def no_fence(cls, name: str) -> "NotSupported":
        return cls(
            f"the lease on {name!r} is degraded: the server could not be reached when it was taken, so nobody gave it "
            'a fence. Look at lease.degraded before you rely on one, or use on_unavailable="raise".',
            name=name,
        )

    @classmethod
    def upgrade(cls, name: str, who: str) -> "NotSupported":
        return cls(
            f"lock {name!r}: this very {who} holds it for reading, and cannot wait for the write lock meanwhile: two "
            "readers that both do that would wait for each other for ever. Leave the read block first and look at the "
            "data again under write(), or take write() from the start and downgrade().",
            name=name,
        )
