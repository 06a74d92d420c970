"""A lease for blocking code."""

import threading
from typing import TYPE_CHECKING, Any

from holdtight.clock import ttl_seconds, wait_seconds
from holdtight.errors import LeaseLost, NotOwner, Unavailable
from holdtight.lease import BaseLease, Detached

if TYPE_CHECKING:
    from holdtight.sync.lock import Lock

__all__ = ["Lease"]


class Lease(BaseLease):
    """One grant in the user's hands. Renewed by itself; `check()` before anything that must not run twice."""

    __slots__ = ()

    lock: "Lock"

    def wait_lost(self, timeout: Any = None) -> bool:
        """Blocks until the lease is lost (True), or the timeout has passed or the lease was released (False)."""
        limit = wait_seconds(timeout, "timeout")
        if self.lost:
            return True
        gone = threading.Event()
        if not self.tenure.on_loss(gone.set):
            return self.lost
        try:
            return gone.wait(limit)
        finally:
            self.tenure.drop_hook(gone.set)

    def renew(self, ttl: Any = None) -> None:
        """Sets the time left to `ttl` (default: the lease's own), and renews with it from now on."""
        number = None if ttl is None else ttl_seconds(ttl, renewed=self.tenure.terms.renew)
        self.check()
        self.lock.renew_tenure(self.tenure, number)

    def release(self) -> None:
        """Gives the lock back. Idempotent. NotOwner if it was not ours any more, Unavailable if that is not known."""
        if self._close():
            self.lock.give_back(self.tenure)

    def detach(self, ttl: Any = None) -> str:
        """Ends this lease without releasing: whoever gets the text can `adopt` the lock within `ttl`. A secret."""
        number = self.ttl if ttl is None else ttl_seconds(ttl, renewed=False)
        self._entered_once("detach")
        self.lock.renew_tenure(self.tenure, number, last=True)
        self._close()
        return Detached(self.name, self.tenure.owner).text()

    def leave(self, error: BaseException | None) -> None:
        """The end of a with block: releases, and tells of a loss without hiding what the body raised."""
        tenure = self.tenure
        was_lost = tenure.lost()
        failure: LeaseLost | None = None
        try:
            self.release()
        except NotOwner as not_owner:
            failure = not_owner
        except Unavailable:
            pass  # an event and a log line say so; the body has done its work, and the grant ends by its ttl
        if was_lost:
            failure = LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        if failure is None:
            return
        if error is None:
            raise failure
        error.add_note(str(failure))
