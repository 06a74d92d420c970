"""Multi-locks for blocking code."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from holdtight.base import refusals
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import Identity, identity
from holdtight.base.values import LockInfo
from holdtight.base.wrong_with import BlockingOnly
from holdtight.clients.multi import BaseMulti, MultiLeaseMixin, combined
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.multi import in_one_script
from holdtight.errors import LeaseLost, LockError
from holdtight.sync.hold import Decorator, Hold
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["Multi", "MultiLease"]


class MultiLease(MultiLeaseMixin, Lease):
    """One lease on several locks. `fences` maps each name to its fence."""

    def __init__(self, lock: "Multi", parts: tuple[Lease, ...]) -> None:
        self.lock: Any = lock
        self.parts = parts
        self.tenure = parts[0].tenure

    def renew(self, ttl: "Duration | None" = None, **unknown: "Never") -> None:
        self.check()
        for part in self.parts:
            part.renew(ttl, **unknown)

    def release(self) -> None:
        """Releases all parts. Idempotent. Raises the first error of any part, after trying all."""
        if self.closed:
            return
        try:
            if self.forsake_if_lost():
                self._not_if_lost("release")
                return
            self.closed = True
            failures = _give_back(self.parts)
        except BaseException:
            self.forsake()  # interrupted: nothing may stay held
            raise
        if failures:
            raise failures[0]

    def detach(self, ttl: "Duration | None" = None, **unknown: "Never") -> str:
        raise refusals.detach_several(self.name)

    def downgrade(self) -> Lease:
        raise refusals.downgrade_several(self.name)

    def leave(self, error: BaseException | None) -> None:
        try:
            losses = self.forsake_if_lost()
            for part in reversed(() if losses else self.parts):
                try:
                    part.leave(None)
                except LeaseLost as loss:
                    losses.append(loss)
            self.closed = True
        except BaseException:
            self.forsake()  # interrupted: nothing may stay held
            raise
        for each in losses:
            if error is None:
                raise each
            error.add_note(str(each))


class Multi(BaseMulti[Lock], Decorator, BlockingOnly):
    """Several locks that are held together or not at all. `locks.multi("a", "b")` makes one.

    Example:
        >>> with locks.multi("a", "b") as lease:
        ...     print(lease.fences["a"] > 0)
        True
    """

    def acquire(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Lease:
        """Returns one lease on all parts, after at most `wait` for all of them together. Raises as `Lock.acquire`,
        naming the part that could not be had.

        Example:
            >>> locks.multi("a", "b").acquire(wait=5).release()
        """
        if unknown:
            raise unknown_options("acquire", unknown, ("wait",))
        return self.taken(self.take(self._wait if wait is UNSET else wait_seconds(wait), identity()))

    def try_acquire(self) -> Lease | None:
        """Returns one lease on all parts, or None if any is not free. Never waits. Raises as `Lock.try_acquire`.

        Example:
            >>> lease = locks.multi("a", "b").try_acquire()
            >>> lease.release()
        """
        lease = self._take_out(None, identity(), or_none=True)
        return None if lease is None else self.taken(lease)

    def take(self, wait: float | None, who: Identity) -> Lease:
        lease = self._take_out(wait, who)
        assert lease is not None
        return lease

    def _take_out(self, wait: float | None, who: Identity, *, or_none: bool = False) -> Lease | None:
        """Takes all parts outside a block."""
        depth = len(who.stack)
        try:
            leases = self._take(wait, who, or_none=or_none)
            if leases is None:
                return None
            self.step_out(who)
            return MultiLease(self, leases)
        except BaseException:
            identity().break_off(depth)  # looked up again: `who` may have been reused for another task
            raise

    def _take(self, wait: float | None, who: Identity, *, or_none: bool = False) -> tuple[Lease, ...] | None:
        """Leases on all parts. They count as held in blocks: while the last part is waited for, the first is held."""
        clock = self._locks.place.clock
        started = clock()
        if self.can_be_one_step and not self.entered_by(who):
            try:
                granted = self._in_one_script(who, started)
            except BaseException as error:
                self.report_failed(started, wait, error)
                raise
            if granted is not None:
                return granted
        leases: list[Lease] = []
        try:
            for part in self.parts:
                left = wait if not wait else max(0.0, wait - (clock() - started))
                lease = Lock.try_acquire(part) if or_none else part.take(left, who)
                if lease is None:
                    self._give_up(leases, who)
                    return None
                who.enter_block(part.key, lease)
                leases.append(lease)  # in this order: _give_up expects every lease in a block
            self.check_parts(leases, started, wait)
        except BaseException:
            self._give_up(leases, who)
            raise
        return tuple(leases)

    def _in_one_script(self, who: Identity, started: float) -> tuple[Lease, ...] | None:
        """Takes all parts with one request, if all are free and have no waiters."""
        locks = self._locks
        locks.check_open()
        owner = locks.client.owner()
        store = locks.store
        several = store.several([part.prepared for part in self.parts])
        plan = in_one_script(several, owner, clock=locks.place.clock, acks=locks.place.acks)
        grants = locks.run(plan, self.name)
        if grants is None:
            return None
        leases: list[Lease] = []
        for part, grant in zip(self.parts, grants, strict=True):
            lease = part.granted(owner, grant.fence, grant.sent, 0, who, grant.acks)
            leases.append(lease)
            who.enter_block(part.key, lease)
        try:
            locks.events.refresh()
            for lease in leases if locks.events.active else ():
                locks.report_quick_grant(lease.tenure, started)
        except BaseException:  # raised by a subscriber
            self._give_up(leases, who)
            raise
        return tuple(leases)

    def _give_up(self, leases: list[Lease], who: Identity) -> None:
        try:
            for part in reversed(self.parts[: len(leases)]):
                who.leave_block(part.key)
            _give_back(leases)
        except BaseException:
            for lease in leases:
                lease.forsake()
            raise

    # As a context manager.

    def __enter__(self) -> Lease:
        who = identity()
        depth = len(who.stack)
        try:
            leases = self._take(self._wait, who)
            assert leases is not None
            lease = MultiLease(self, leases)
            lease.has_block = True
            who.enter_block(self.key, lease)
            return lease
        except BaseException:
            identity().break_off(depth)  # looked up again: `who` may have been reused for another task
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease: MultiLease | None = None
        try:
            who = identity()
            lease = cast(MultiLease, who.lease_of(self.key))
            who.leave_block(self.key)
            self.step_out(who)
            lease.leave(error)
        except BaseException:
            identity().break_off_end(self.key, lease)
            raise

    def hold(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Hold:
        """A single-use context manager that carries its lease: one thread may enter it, another exit. `wait` as for
        `acquire`; entering raises as `acquire`.

        Example:
            >>> with locks.multi("a", "b").hold(wait=5) as lease:
            ...     lease.check()
        """
        if unknown:
            raise unknown_options("hold", unknown, ("wait",))
        return Hold(self, self._wait if wait is UNSET else wait_seconds(wait))

    # Inspecting.

    def locked(self) -> bool:
        """Whether any part is held at this moment. Raises Unavailable.

        Example:
            >>> locks.multi("a", "b").locked()
            False
        """
        return any(part.locked() for part in self.parts)

    def inspect(self) -> LockInfo:
        """The holders and waiters of all parts. Raises Unavailable.

        Example:
            >>> locks.multi("a", "b").inspect().holders
            ()
        """
        return combined(self.name, [part.inspect() for part in self.parts])


def _give_back(leases: "tuple[Lease, ...] | list[Lease]") -> list[LockError]:
    """Releases all, also after a failure. Returns the failures."""
    failures: list[LockError] = []
    for lease in reversed(leases):
        try:
            lease.release()
        except LockError as error:
            failures.append(error)
    return failures
