"""Releases and renews what the leases of a blocking `Lock` hold, and withdraws what an interrupt left."""

import threading
from typing import TYPE_CHECKING, Any

from holdtight.base.identity import Identity, identity
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.records import ENDED
from holdtight.base.values import HANDED_ON, RELEASED
from holdtight.clients.lock import BaseLock
from holdtight.clients.terms import LONGEST_RELEASE
from holdtight.core.contend import Asking, abandon
from holdtight.core.ending import release
from holdtight.errors import NotOwner
from holdtight.grants.manual_renewal import Renewal
from holdtight.grants.tenure import Tenure
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Link
from holdtight.stores.times import marker_for
from holdtight.sync.driver import Driver

if TYPE_CHECKING:
    from holdtight.sync.lease import Lease
    from holdtight.sync.locks import Locks

__all__ = ["ReleasingLock"]


class ReleasingLock(BaseLock):
    __slots__ = ()

    _locks: "Locks"
    driver: type[Driver] = Driver
    """Runs its plans."""

    def abandon(self, link: Link, asking: Asking, limit: float, error: BaseException, *, queued: bool = False) -> None:
        """Gives up after an interrupt: withdraws what was sent on this link and is not answered yet."""
        asking.queued = queued
        with self.driver(self._locks.transport, link) as driver:
            driver.run(abandon(asking, marker_for(limit)))
        self._locks.report_failure(self.terms, asking, error)

    def _asked(self, wait: float | None, who: Identity, or_none: bool) -> "Lease | None":
        """As `_attempt`; an interrupt leaves nothing on the server."""
        who.asks = None
        try:
            return self._attempt(wait, who, or_none, False)
        except BaseException as error:
            self.call_off(who.asks, error)
            raise

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> "Lease | None":
        raise NotImplementedError

    def give_back(self, tenure: Tenure) -> None:
        self.terms.runtime.keeper.drop(tenure)
        if tenure.lost():
            self.let_go(tenure)  # no answer could change anything, and the server may hang
            return
        tenure.ended = True
        try:
            if tenure.marker:
                self._give_back_slowly(tenure, None)
            else:
                self._give_back_at_once(tenure)
        except BaseException as error:
            self.call_off(tenure.owner, error)
            raise

    def _give_back_at_once(self, tenure: Tenure) -> None:
        """The usual path: one request, one reply, no plan."""
        locks = self._locks
        transport = locks.transport
        try:
            link = transport.idle.pop()
        except IndexError:
            self._give_back_slowly(tenure, None)
            return
        try:
            if self.prepared.wanted and link.inbox:
                request = self.prepared.release_by(tenure.owner, link.inbox_word)
            else:
                head = self.prepared.release or self.prepared.pack_release()
                request = b"%b$24\r\n%b\r\n" % (head, tenure.owner)
            reply = link.call(request, self.terms.give_patience)
        except LinkDown as down:
            transport.lose(link, down)
            self._give_back_slowly(tenure, down)
            return
        except BaseException:
            transport.scrap(link)
            self.terms.runtime.keeper.ask(DeferredUndo(locks.place, self.prepared.release_step(tenure.owner)))
            self.handed_on(tenure)
            raise
        if transport.unlimited:
            transport.idle.append(link)
        else:
            transport.give(link)
        if reply == HANDED_ON:
            self.prepared.wanted = True
            self.handed_on(tenure)
        elif reply != RELEASED:
            self._give_back_slowly(tenure, reply)
            return
        events = locks.events
        if events.active:
            if events.record is not None:
                events.record((ENDED, tenure, self.terms.clock(), "released"))
            if events.loud:
                locks.emit_release(tenure)

    def _give_back_slowly(self, tenure: Tenure, first: Any) -> None:
        locks = self._locks
        marker = locks.marker_of(tenure)
        try:
            with self.driver(locks.transport, beyond=True) as driver:
                reason = driver.run(release(self.prepared, tenure.owner, marker=marker, first=first))
        except (LinkDown, ServerSaid) as error:
            raise locks.report_no_release(self.prepared, tenure, error, marker) from error
        if reason is not None:
            tenure.lost_at_release(reason)
            raise NotOwner.on("release", self._name, reason)
        self.handed_on(tenure)
        locks.events.refresh()
        locks.report_release(tenure)

    def downgrade(self, tenure: Tenure) -> "Lease":
        """Returns the read lease that replaces the write lease."""
        lock: Any = self.reading()
        tenure.waiting = True
        self.terms.runtime.keeper.drop(tenure)
        try:
            grant = self._locks.run(self.downgrading(lock, tenure), self._name)
        except BaseException as error:
            self.not_downgraded(tenure, error)
            raise
        lease: Lease = lock.granted(tenure.owner, grant.fence, grant.sent, tenure.marker, identity(), grant.acks)
        return lease

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        done = threading.Event()
        renewal = Renewal(tenure, ttl, done.set, last=last)
        renewal.start()
        done.wait(min(LONGEST_RELEASE, max(0.0, tenure.deadline - self.terms.clock()) + 0.05))
        renewal.conclude()
