"""Multi-locks, blocking and asyncio: several locks held together or not at all, always taken in one order.

Every multi-lock takes its parts in the order of their names, so two of them never wait for each other. If all parts are
free and have no waiters, one script takes them in one step (see core/multi.py). Otherwise they are taken one after
another with ordinary waits, and released if one cannot be had.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

from holdtight.base import refusals
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, identity
from holdtight.base.public import PublicLock
from holdtight.base.values import Kind, LockInfo, LossReason
from holdtight.clients.client import BaseLocks
from holdtight.clients.lock import BaseLock
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET, Options
from holdtight.errors import LeaseLost, NotOwner
from holdtight.grants.lease import BaseLease
from holdtight.grants.tenure import Tenure

__all__ = ["BaseMulti", "MultiLeaseMixin", "combined"]

L = TypeVar("L", bound=BaseLock)
M = TypeVar("M", bound=BaseLease)


class BaseMulti(PublicLock, Generic[L]):
    """Configuration of several locks that are held together or not at all."""

    def __init__(self, locks: BaseLocks[L], parts: tuple[L, ...], wait: float | None) -> None:
        self._locks: Any = locks
        self.parts = parts
        self._wait = wait
        self.key = (locks, f"multi {self.name}")

    @property
    def name(self) -> str:
        """The names of all parts, in the order in which they are taken."""
        return " + ".join(part.name for part in self.parts)

    @property
    def can_be_one_step(self) -> bool:
        """Whether one script can take all parts: more than one part, on one server."""
        return len(self.parts) > 1 and self._locks.place.one_step

    def entered_by(self, who: Identity) -> bool:
        """Whether this identity already holds any part. Then the parts are taken one by one, with their own errors."""
        keys = {part.key for part in self.parts}
        return any(key in keys for key, _ in who.stack) or any(key in keys for key in who.grants)

    def step_out(self, who: Identity) -> None:
        """Removes the parts from what this identity holds in blocks."""
        for part in reversed(self.parts):
            who.leave_block(part.key)

    def taken(self, lease: M) -> M:
        """Records a lease that is held outside a block (see BaseLocks.took)."""
        who = identity()  # looked up again: after step_out the old identity may have been reused for another task
        for tenure in lease.tenures:
            self._locks.took(tenure.name, tenure, who)
        return lease

    def report_failed(self, started: float, wait: float | None, error: BaseException) -> None:
        """Reports a failure that concerns no single part; a part reports its own."""
        self._locks.report_failed(None, self.name, "", started, wait, error)

    def check_parts(self, leases: list[Any], started: float, wait: float | None) -> None:
        """Raises LeaseLost if a part was lost while the others were waited for."""
        try:
            for lease in leases:
                cast(BaseLease, lease).check()
        except LeaseLost as loss:
            self.report_failed(started, wait, loss)
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._locks, self.parts, self._wait)


def parts_of(locks: BaseLocks[L], given: Iterable[object], options: dict[str, Any]) -> tuple[L, ...]:
    """The locks in the order in which every multi-lock takes them, each name once."""
    found: dict[str, L] = {}
    for each in _flat(locks, given, options):
        before = found.get(each.name)
        if before is None:
            found[each.name] = each
        elif before.options.kind is not each.options.kind:
            raise ValueError(
                f"multi: {each.name!r} is asked for in two modes, {before.options.kind.value} and "
                f"{each.options.kind.value}: nobody could ever hold both"
            )
        elif each.options.kind is Kind.PERMITS:
            found[each.name] = each.asking_for(before.options.n + each.options.n)
    if not found:
        raise ValueError("multi: at least one name or lock is needed")
    return tuple(found[name] for name in sorted(found))


def _flat(locks: BaseLocks[L], given: Iterable[object], options: dict[str, Any]) -> Iterable[L]:
    for each in given:
        if isinstance(each, str):
            yield locks.lock(each, **options, cohort=False)
        elif isinstance(each, locks.lock_type):
            lock = cast(L, each)
            if lock.key[0] is not locks:
                raise ValueError(f"multi: {lock!r} belongs to another client; all parts must be of one")
            if lock.options.cohort:
                raise refusals.cohort_in_a_multi(lock.name)
            yield lock
        elif isinstance(each, BaseMulti):
            several = cast("BaseMulti[L]", each)
            yield from _flat(locks, several.parts, options)
        elif isinstance(each, BaseReadWriteLock):
            raise TypeError(f"multi: {each!r} can be held in two ways: give its .read() or its .write()")
        else:
            hint = ": write multi(*names)" if hasattr(each, "__iter__") else ""
            raise TypeError(f"multi takes names and locks of the same client, not {type(each).__name__}{hint}")


def multi_of(
    locks: BaseLocks[L], given: Iterable[object], options: Mapping[str, Any]
) -> tuple[tuple[L, ...], float | None]:
    """The parts of a multi-lock, and how long it waits for all of them. Other options are for parts given by name."""
    Options.check_words("multi", options)
    wait = options.get("wait", UNSET)
    parts = parts_of(locks, given, {word: value for word, value in options.items() if word != "wait"})
    return parts, locks.settings.wait if wait is UNSET else wait_seconds(wait)


def combined(name: str, infos: list[LockInfo]) -> LockInfo:
    """One LockInfo for several names."""
    return LockInfo(
        name=name,
        kind=Kind.MULTI,
        holders=tuple(holder for info in infos for holder in info.holders),
        waiters=tuple(waiter for info in infos for waiter in info.waiters),
        waiting=sum(info.waiting for info in infos),
        holding=sum(info.holding for info in infos),
    )


class MultiLeaseMixin:
    """The public face of a lease on several locks. Losing one part is losing the whole."""

    parts: tuple[Any, ...]
    lock: Any
    closed: bool
    has_block: bool

    @property
    def tenures(self) -> tuple[Tenure, ...]:
        return tuple(part.tenure for part in self.parts)

    def lost_part(self) -> Tenure | None:
        """The first lost part, or None. The clock decides, as for every lease."""
        return next((each for each in self.tenures if each.lost()), None)

    @property
    def name(self) -> str:
        return " + ".join(part.name for part in self.parts)

    @property
    def kind(self) -> Kind:
        return Kind.MULTI

    @property
    def fence(self) -> int:
        raise refusals.one_fence_for_several(self.name)

    @property
    def fences(self) -> Mapping[str, int]:
        return {name: fence for part in self.parts for name, fence in part.fences.items()}

    @property
    def ttl(self) -> float:
        return min(tenure.ttl for tenure in self.tenures)

    def remaining(self) -> float:
        return 0.0 if self.closed or self.lost else min(tenure.remaining() for tenure in self.tenures)

    @property
    def lost(self) -> bool:
        return self.lost_part() is not None

    @property
    def reason(self) -> LossReason | None:
        part = self.lost_part()
        return None if part is None else part.reason

    def check(self) -> None:
        tenure = self.lost_part()
        if tenure is not None:
            raise LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        if self.closed:
            raise NotOwner.on("rely on", self.name, None)

    def on_lost(self, callback: Callable[[Any], object]) -> None:
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        cls, lock, me = type(self), self.lock, weakref.ref(self)
        handles: list[tuple[Any, Any, Tenure]] = [(type(part), part.lock, part.tenure) for part in self.parts]
        told: list[bool] = []

        def tell() -> object:
            if told:
                return None
            told.append(True)
            # Must not keep the lease alive, see BaseLease.on_lost.
            return callback(me() or cast(Any, cls)(lock, tuple(kind(of, tenure) for kind, of, tenure in handles)))

        for tenure in self.tenures:
            tenure.on_loss(tell)

    @property
    def degraded(self) -> bool:
        return any(part.degraded for part in self.parts)

    @property
    def acks(self) -> int:
        fewest: int = min(part.acks for part in self.parts)
        return fewest

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers that hold all parts. On a cluster, those that hold any: each part lies on one of them."""
        if getattr(self.tenures[0].prepared, "home", None) is not None:  # a slot
            return tuple(dict.fromkeys(node for each in self.parts for node in each.nodes))
        return tuple(node for node in self.tenures[0].nodes if all(node in each.nodes for each in self.tenures))

    def forsake(self) -> None:
        """Ends all parts here; the keeper releases them."""
        self.closed = True
        for part in self.parts:
            part.forsake()

    @property
    def in_block(self) -> bool:
        return self.has_block

    def step_in(self, who: Identity, block: Any) -> None:
        """The parts count as held in blocks too."""
        for part in self.parts:
            part.step_in(who, part)
        cast(Any, super()).step_in(who, block)

    def step_out(self, who: Identity) -> None:
        for part in reversed(self.parts):
            who.leave_block(part.block_key)

    def watch(self) -> None:
        """Nothing to do: each part has its own leak warning."""

    def forsake_if_lost(self) -> list[LeaseLost]:
        """If any part is lost, ends all parts without waiting for the server. Returns the losses, last part first."""
        if not self.lost:
            return []
        self.forsake()
        lost = (each for each in reversed(self.tenures) if each.reason is not None)
        return [LeaseLost.because(each.name, each.reason, each.fence) for each in lost]

    def _not_if_lost(self, verb: str) -> None:
        for part in reversed(self.parts):
            part._not_if_lost(verb)

    def _what(self) -> str:
        count = len(self.parts)
        return f"{count} lock{'s'[: count > 1]}{' degraded' if self.degraded else ''}"
