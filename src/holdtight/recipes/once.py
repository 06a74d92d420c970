"""`once`: which calls run, and which are skipped.

The server writes the record of a run before the body's first line. The same step checks that the lock is still ours and
that there is no other record. So at most one body starts while a record exists, even if processes are paused or killed,
and whatever the clocks of clients say. A call reads the record first, so that the usual skip costs one request.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, Literal, cast

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import seconds, wait_seconds
from holdtight.base.identity import identity
from holdtight.base.jobs import Run, Skipped
from holdtight.base.plan import Batch, LinkDown, Plan, ServerSaid, Step
from holdtight.base.values import Holder, LossReason
from holdtight.core.again import asked_in_time, read_again
from holdtight.errors import JobSkipped, LockTimeout
from holdtight.recipes.locking import PerName, locks_of_single_owners
from holdtight.recipes.names import Naming
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["Once", "OnceCall", "duration_kept"]

DAY = 86_400.0
LONGEST_KEPT = 366 * DAY
LONGEST_ERROR = 500
ENDED_EARLY = "its lease ended before the run did: it was killed, paused or cut off"


def duration_kept(value: object, argument: str) -> float:
    """Checks a duration for which something stays on the server."""
    number = seconds(value, argument)
    if not 0.001 <= number <= LONGEST_KEPT:
        raise ValueError(f"{argument}={value!r} is out of range: 1ms to 366 days")
    return number


def error_text(error: BaseException) -> str:
    kind = type(error)
    try:
        said = str(error)
    except Exception:  # it must not take the place of the error itself
        said = "(its text cannot be shown)"
    return f"{kind.__module__}.{kind.__qualname__}: {said}"[:LONGEST_ERROR]


class Once:
    """One decorated function."""

    def __init__(self, locks: Any, options: dict[str, Any], function: Any, **given: Any) -> None:
        self.locks = locks
        self.lock_of = locks_of_single_owners(locks, options, given["name"])
        self.naming = Naming(given["name"], function)
        per = given["per"]
        self._per = None if per is None else Naming(per, function, "per")
        at_least = given["at_least"]
        self.keep: float | None = DAY if per is not None else None
        """How long a record stays; None for no record."""
        if at_least is not None:
            self.keep = duration_kept(at_least, "at_least")
        if given["after_failure"] not in ("wait", "retry"):
            raise ValueError(f'after_failure={given["after_failure"]!r} must be "wait" or "retry"')
        self.every_start = given["after_failure"] == "wait"
        on_skip = given["on_skip"]
        if on_skip not in ("return", "raise") and not callable(on_skip):
            raise ValueError(f'on_skip={on_skip!r} must be "return", "raise" or a callable')
        self._on_skip: Callable[[Skipped], Any] | str = on_skip
        self.wait = wait_seconds(given["wait"])
        self._calls = PerName(lambda name: OnceCall(self, name, ""))
        if self.keep is not None:
            locks.place.check_supports("once", None)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "OnceCall":
        name = self.naming.of(args, kwargs)
        return self._calls.of(name) if self._per is None else OnceCall(self, name, self._per.of(args, kwargs))

    def skip(self, skipped: Skipped) -> Any:
        """Returns, or raises, what a skipped call must."""
        if self._on_skip == "return":
            return skipped
        if self._on_skip == "raise":
            raise JobSkipped.of(skipped)
        return cast(Callable[[Skipped], Any], self._on_skip)(skipped)


class OnceCall:
    """The calls of one name, or of one occurrence: the lock and the record."""

    def __init__(self, once: Once, name: str, occurrence: str) -> None:
        self.once = once
        self.name = name
        locks = once.locks
        self.lock = once.lock_of(name)
        self._clock: Callable[[], float] = locks.place.clock
        self.records: Any = None if once.keep is None else locks.place.records(name, occurrence)
        self._label: str | None = self.lock.options.label

    @property
    def recorded(self) -> bool:
        return self.records is not None

    # Before the lock is taken.

    def within_itself(self) -> Skipped | None:
        """The answer to a call inside the body of the same job; None for any other call."""
        for key, entered in reversed(identity().stack):
            if key == self.lock.key:
                lease: Any = getattr(entered, "lease", entered)
                me = Holder(lease.owner, host=socket.gethostname(), pid=os.getpid(), label=self._label)
                return Skipped(self.name, "running", me)
        return None

    def look(self) -> Plan[Skipped | None]:
        """A Skipped if the record alone decides. A call that may wait is not skipped while another run lasts."""
        return self.decided((yield from self._seen()))

    def decided(self, seen: Any) -> Skipped | None:
        """The same, from a record that was read before."""
        record, holder = seen
        if record is None or not self._stands(record):
            return None
        if record.state == "r" and record.owner == holder:
            return None if self.once.wait != 0 else self._skipped(record, "running")
        return self._skipped(record, "done")

    def held(self, error: LockTimeout) -> Skipped:
        """The answer if the lock was not acquired."""
        holder = error.holder
        return Skipped(self.name, "running", holder, holder.since if holder else None)

    # Under the lock.

    def begin(self, owner: bytes) -> "Plan[Skipped | LossReason | None]":
        """Writes the record; None if the body may start. If the plan ends early, it takes the record back."""
        records, once = self.records, self.once
        about = {"host": socket.gethostname(), "pid": os.getpid(), "label": self._label}
        until = 0.0

        def begin() -> Step:
            nonlocal until
            now = self._clock()
            until = now + LONGEST_PATIENCE
            step: Step = records.begin_step(owner, keep=once.keep, every_start=once.every_start, about=about, now=now)
            return step

        assert once.keep is not None
        try:
            said = yield from asked_in_time(begin)
        except BaseException:
            yield from _undone(records.undo_step(owner, "", {}, until))
            raise
        if said is None:
            return None
        if isinstance(said, LossReason):
            yield from _undone(records.undo_step(owner, "", {}, until))  # an earlier request may have written it
            return said
        return self._skipped(said, "done")

    def end(self, owner: bytes, error: BaseException | None, *, started: bool = True) -> Plan[None]:
        """Writes how the run ended. If the server cannot be reached, the keeper tries for a while: the body has done
        its work, and what it returned or raised goes to the caller."""
        state = ("d" if error is None else "f") if started else ""
        about = {"host": socket.gethostname(), "pid": os.getpid(), "label": self._label}
        if error is not None:
            about["error"] = error_text(error)
        try:
            yield self.records.end_step(owner, state, about)
        except ServerSaid as said:
            get_logger().warning("job %r: the end of its run is not recorded: %s", self.name, said)
        except BaseException as error:  # also a cancellation: the record must still say that the body returned
            yield from _undone(self.records.undo_step(owner, state, about, 0.0))
            if not isinstance(error, LinkDown):
                raise

    # Helpers.

    def last(self) -> Plan[Run | None]:
        record, holder = yield from self._seen()
        if record is None:
            return None
        about = record.about
        state: Literal["running", "done", "failed"] = "done" if record.state == "d" else "failed"
        error = about.get("error")
        if record.state == "r":
            state, error = ("running", None) if record.owner == holder else ("failed", ENDED_EARLY)
        taken = record.ended - record.started if record.ended else None
        who = about.get("host"), about.get("pid"), about.get("label")
        return Run(state, *who, record.fence, record.started, taken, error)

    def forget(self) -> Plan[None]:
        if self.records is not None:
            yield from read_again(self.records.forget_step())

    def _seen(self) -> Plan[Any]:
        if self.records is None:
            return None, None
        replies: list[Any] = yield from read_again(Batch(self.records.look_steps()))
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return self.records.read_look(replies)

    def _stands(self, record: Any) -> bool:
        return self.once.every_start or bool(record.state == "d")

    def _skipped(self, record: Any, why: Literal["running", "done"]) -> Skipped:
        about = record.about
        holder = Holder(
            record.owner,
            record.fence,
            about.get("host"),
            about.get("pid"),
            about.get("label"),
            since=record.started,
        )
        return Skipped(self.name, why, holder, record.started, record.left)


def _undone(step: Any) -> Plan[None]:
    """If this fails, the keeper tries again. What led here, such as an interrupt, stays the error."""
    try:
        yield step
    except (LinkDown, ServerSaid):
        pass
