"""A lease for blocking code."""

import functools
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdtight.base.clock import ttl_seconds, wait_seconds
from holdtight.base.identity import identity
from holdtight.base.wrong_with import BlockingOnly
from holdtight.config.settings import unknown_options
from holdtight.errors import LeaseLost, LockError, NotOwner, Unavailable
from holdtight.grants.lease import GLANCE, BaseLease, Detached

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.sync.lock import Lock

__all__ = ["Lease"]


class Lease(BaseLease, BlockingOnly):
    """One grant in your hands, renewed automatically until it is released or lost. `lock.acquire()` and `with` blocks
    give one; it is a context manager itself. Call `check()` before anything that must not run twice.

    Example:
        >>> with locks.lock("order:42").acquire(wait=5) as lease:
        ...     lease.on_lost(lambda lost: print("lost", lost.name))
        ...     lease.renew("30s")
        ...     print(lease.remaining() > 20, lease.wait_lost(timeout=0))
        True False
    """

    lock: "Lock"

    def __enter__(self) -> Self:
        """Raises RuntimeError if it was released or is in a block already, LeaseLost if it is lost."""
        self.may_enter()
        try:
            self.step_in(identity(), self)
            return self
        except BaseException:
            identity().break_off_end(self.lock.key, self)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.block_key is not None
        try:
            who = identity()
            who.leave_block(self.block_key)
            self.step_out(who)
            self.leave(error)
        except BaseException:
            identity().break_off_end(self.block_key, self)
            raise

    def wait_lost(self, timeout: "Duration | None" = None) -> bool:
        """Blocks until the lease is lost (True), or until it is released or `timeout` is over (False).

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.wait_lost(timeout=0)
            False
        """
        limit = wait_seconds(timeout, "timeout")
        if self.lost:
            return True
        tenures = self.tenures
        clock = self.tenure.place.clock
        sleeper = self.tenure.place.runtime.sleeper()
        news = functools.partial(sleeper.wake, True)
        until = float("inf") if limit is None else clock() + limit
        try:
            for tenure in tenures:
                tenure.on_loss(news)
            while not self.closed and all(tenure.alive for tenure in tenures):
                if sleeper.sleep(min(clock() + GLANCE, until)):
                    return True
                if clock() >= until:
                    break
        finally:
            for tenure in tenures:
                tenure.drop_hook(news)
        return self.lost

    def renew(self, ttl: "Duration | None" = None, **unknown: "Never") -> None:
        """Sets the time left to `ttl` (default: the lease's own), which later renewals use too.

        Raises LeaseLost if the lease is not held any more, Unavailable if the server does not answer.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.renew("1m")
            ...     lease.ttl
            60.0
        """
        if unknown:
            raise unknown_options("renew", unknown, ("ttl",))
        number = None if ttl is None else ttl_seconds(ttl, renewed=self.tenure.terms.renew)
        self.check()
        self.lock.renew_tenure(self.tenure, number)

    def tell(self, report: Callable[..., None], *args: Any) -> None:
        """Reports the grant of this lease. A subscriber may raise a BaseException such as SystemExit. Then the caller
        never gets the lease, so this releases the lock first."""
        try:
            report(*args)
        except BaseException:
            with suppress(LockError):
                self.release()
            raise

    def release(self) -> None:
        """Releases the lock. Idempotent. Raises NotOwner if it was lost before, Unavailable if that is not known.

        Example:
            >>> lease = locks.lock("order:42").acquire()
            >>> lease.release()
        """
        if self._close():
            self.lock.give_back(self.tenure)
            self._not_if_lost("release")

    def detach(self, ttl: "Duration | None" = None, **unknown: "Never") -> str:
        """Ends this lease without releasing the lock and returns a text: any client with the text can `adopt` the lock
        within `ttl`, so keep it secret.

        Raises NotSupported unless it is an exclusive lock, entered once, on one server that was reachable; LeaseLost if
        the lease is not held any more; Unavailable if the server does not answer.

        Example:
            >>> text = locks.lock("order:42").acquire().detach(ttl="5s")
            >>> locks.adopt(text).release()
        """
        if unknown:
            raise unknown_options("detach", unknown, ("ttl",))
        number = self.ttl if ttl is None else ttl_seconds(ttl, renewed=False)
        self._may_detach()
        self.lock.renew_tenure(self.tenure, number, last=True)
        self._close()
        try:
            self.lock.report_detached(self.tenure)
        except BaseException:  # raised by a subscriber: the caller never gets the text, so nothing could adopt the lock
            with suppress(LockError):
                self.lock.give_back(self.tenure)
            raise
        self.detached = True
        return Detached(self.name, self.tenure.owner).text()

    def downgrade(self) -> "Lease":
        """Turns a write lease into a read lease without a gap: ends this lease and returns the new one. A block that
        held this lease releases the new one at its end.

        Raises NotSupported unless it is a write lease, entered once, not on a quorum; LeaseLost if the lease is not
        held any more; Unavailable if the server does not answer, and then this lease is lost.

        Example:
            >>> with locks.rwlock("book").write() as lease:
            ...     lease.downgrade().kind.value
            'shared'
        """
        self._may_downgrade()
        lease = self.lock.downgrade(self.tenure)
        self._downgraded(lease)
        if not lease.degraded:
            lease.tell(self.lock.report_downgraded, self.tenure, lease.tenure)
        return lease

    def leave(self, error: BaseException | None) -> None:
        """Ends a with block: releases, and reports a loss without hiding an exception of the body."""
        if self.successor is not None:
            self.successor.leave(error)
            return
        failure: LeaseLost | Unavailable | None = None
        try:
            if self._close():
                self.lock.give_back(self.tenure)
        except (NotOwner, Unavailable) as raised:
            failure = raised
        self.conclude(failure, error)

    def conclude(self, failure: LeaseLost | Unavailable | None, error: BaseException | None) -> None:
        """Raises or notes a loss. An unreachable server is only an event and a log line: the body has done its work."""
        tenure = self.tenure
        if not isinstance(failure, NotOwner):
            if tenure.reason is None:
                return
            failure = LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        if error is None:
            raise failure
        error.add_note(str(failure))
