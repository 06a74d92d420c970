"""What all lock objects with the same options share: computed once, however many names a program uses."""

from typing import TYPE_CHECKING, Any

from holdtight.base.values import Claim, shared
from holdtight.config.settings import Options
from holdtight.core.contend import patience
from holdtight.grants.tenure import Terms

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["LONGEST_RELEASE", "LockTerms"]

LONGEST_RELEASE = 2.0
_ENOUGH = 1.0


class LockTerms(Terms):
    """The terms of locks of one client."""

    __slots__ = (
        "clock",
        "degrades",
        "give_patience",
        "lane",
        "lock_type",
        "options",
        "patience",
        "runtime",
        "tell",
        "unusual",
        "wait",
    )

    def __init__(self, locks: "BaseLocks[Any]", options: Options) -> None:
        claim = Claim("", options.ttl, options.label, options.kind, options.n, options.permits, options.cohort)
        shape = locks.store.shape(claim)
        super().__init__(
            shape,
            locks.place,
            locks.events,
            renew=options.renew,
            max_hold=options.max_hold,
            warn_after=options.warn_after,
            template=options.template,
        )
        self.options = options
        self.wait = options.wait
        self.clock = locks.place.clock
        self.runtime = locks.place.runtime
        self.tell = self.runtime.tell
        self.degrades = locks.settings.on_unavailable != "raise"
        """Without the server, `on_unavailable` decides what is granted."""
        self.unusual = options.reentrant or options.max_hold is not None or options.cohort
        self.lock_type: Any = locks.cohort_lock_type if options.cohort else locks.lock_type
        self.patience = shared(patience(shape, options.wait, locks.settings.connect_timeout))
        # Same timeout as for acquiring if that is long enough: changing the socket's timeout costs two system calls.
        # With `acks` that is longer, and a timeout somewhat shorter than a request's stays.
        same = self.patience >= _ENOUGH and not locks.settings.acks
        self.give_patience = self.patience if same else LONGEST_RELEASE
        self.lane: Any = self.runtime.keeper.lane(self.interval)
        """Where the keeper has the grants; `lane_now` after a fork."""

    def lane_now(self) -> Any:
        """The lane of this process: a forked child has its own."""
        self.lane = self.runtime.keeper.lane(self.interval)
        return self.lane
