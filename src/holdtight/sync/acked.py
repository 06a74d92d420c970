"""Locks of blocking clients with `acks`: a grant counts only once replicas have it.

The fast path is that of `Lock`, with a WAIT in the same write. A grant to a fresh owner always changes something, so
this WAIT needs no mark (see stores/redis/acks.py).
"""

from typing import Any, cast

from holdtight.base.identity import Identity
from holdtight.base.plan import LinkDown, TooFewAcks
from holdtight.base.values import Grant, Queued
from holdtight.core.acks import first_wait
from holdtight.core.contend import Asking, abandon, patience
from holdtight.stores.boundary import Link
from holdtight.stores.times import LOOK_SECONDS, marker_for
from holdtight.sync.backend import Backend
from holdtight.sync.cohort import CohortLock
from holdtight.sync.kinds import Semaphore
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

__all__ = ["AckedBackend", "AckedLock"]


class AckedLock(Lock):
    __slots__ = ()

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        locks, prepared = self._locks, self.prepared
        client = locks.client
        started, owner = self.terms.clock(), client.owner()
        who.asks = owner
        # Behind a request that is queued or denied, WAIT would only cost time: it is so if others want the lock.
        may_be_free = wait != 0 and not prepared.wanted and client.lead is not None
        link = locks.transport.take_idle() if may_be_free and started <= client.recorded_until else None
        if link is None:
            return self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who)
        longest = patience(prepared, wait, locks.settings.connect_timeout)
        limit = locks.store.not_after(started, longest)
        head = prepared.attempt or prepared.pack_attempt(queue=True)
        seconds = first_wait(self.terms.ttl, wait, locks.settings.connect_timeout)
        count = locks.place.acks.count_request(seconds)
        request = b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n%b" % (head, link.inbox_word, limit, owner, count)
        try:
            reply, acks = cast(Any, link).call_twice(request, max(longest, seconds + LOOK_SECONDS))
        except LinkDown as down:
            locks.transport.lose(link, down)
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            return self._slowly(asking, who, first=down, limit=marker_for(limit))
        except BaseException as error:
            asking = self.asking(owner, wait, started, or_none=or_none)
            locks.transport.scrap(link)  # its WAIT may last
            with self.driver(locks.transport) as driver:
                driver.run(abandon(asking, marker_for(limit)))
            locks.report_failure(self.terms, asking, error)
            raise
        if type(reply) is not bytes:
            answer = self._understood(reply, started)
            prepared.wanted = prepared.wanted or isinstance(answer, Queued)
            return self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who, link, answer)
        fence = int(reply)
        client.learn(fence / 1e6, started)
        if acks.__class__ is not int or self.terms.clock() - started >= prepared.valid:
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            return self._slowly(asking, who, link, Grant(fence, started))
        if acks < locks.place.acks.needed:
            return self._too_few(self.asking(owner, wait, started, who, or_none=or_none), who, link, acks)
        locks.transport.give(link)
        lease = self.granted(owner, fence, started, 0, who, acks)
        if locks.events.active:
            lease.tell(locks.report_quick_grant, lease.tenure, started)
        return lease

    def _too_few(self, asking: Asking, who: Identity, link: Link, acks: int) -> Lease | None:
        asking.in_line = True
        with self.driver(self._locks.transport, link) as driver:
            driver.run(abandon(asking, 0))
        return self._slowly(asking, who, first=TooFewAcks(acks, self._locks.place.acks.needed))


class AckedSemaphore(Semaphore, AckedLock):
    __slots__ = ()


class AckedCohortLock(CohortLock, AckedLock):
    __slots__ = ()


class AckedBackend(Backend):
    lock_type: type[Lock] = AckedLock

    @property
    def semaphore_type(self) -> Any:
        return AckedSemaphore

    @property
    def cohort_lock_type(self) -> Any:
        return AckedCohortLock
