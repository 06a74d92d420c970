"""Makes a lease lost, on demand."""

import os
from typing import Any

import hiredis

from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import OWNER_SIZE, LossReason
from holdtight.grants.lease import BaseLease
from holdtight.stores.boundary import Link
from holdtight.stores.redis.script import with_script_body
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["lose"]


def lose(lease: BaseLease, reason: LossReason = LossReason.TAKEN) -> None:
    """Takes a `lease` away from its holder, as if the keeper had found it lost for that `reason`.

    The lease is really gone: the server gives the lock to the next waiter, if there is one. With TAKEN the lock is held
    in any case, if necessary by a made-up owner for the lease's ttl. The holder is told in the usual ways. A lease on
    several locks loses the first one.

    Raises ValueError for a lease that has ended, and for the `reason` FORKED.

    Example:
        >>> from holdtight.testing import lose
        >>> lease = locks.lock("order:42").acquire()
        >>> lose(lease, LossReason.EXPIRED)
        >>> lease.lost, lease.reason.name
        (True, 'EXPIRED')
    """
    if reason is LossReason.FORKED:
        raise ValueError("only a fork makes a lease lost as FORKED")
    part: Any = lease
    tenure = getattr(part, "parts", (part,))[0].tenure
    if lease.closed or tenure.lost() or not tenure.alive:
        raise ValueError(f"{lease!r} is lost or released already")
    tenure.waiting = True  # the keeper skips it from now on: it might find another reason
    prepared, place = tenure.prepared, tenure.place
    link = place.open(LONGEST_PATIENCE)
    try:
        _perform(link, prepared.release_step(tenure.owner))
        if reason is LossReason.TAKEN:
            stranger = os.urandom(OWNER_SIZE)
            _perform(link, prepared.attempt_step(stranger, now=place.clock(), patience=LONGEST_PATIENCE, queue=False))
    finally:
        link.close()
    place.runtime.keeper.drop(tenure)
    tenure.lose(reason)


def _perform(link: Link, step: Step) -> None:
    reply = link.call(with_script_body(step.packed(link.inbox_word)), LONGEST_PATIENCE)
    if isinstance(reply, hiredis.ReplyError):
        raise ServerSaid(str(reply))
