"""Locks of asyncio clients with `acks`: a grant counts only once replicas have it. The fast path is that of
`AsyncLock`, with a count at the barrier."""

from holdtight.aio import barrier
from holdtight.aio.backend import Backend
from holdtight.aio.cohort import AsyncCohortLock
from holdtight.aio.connection import Connection
from holdtight.aio.driver import Driver
from holdtight.aio.kinds import AsyncSemaphore
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.aio.transport import Transport
from holdtight.base.identity import Identity
from holdtight.base.plan import LinkDown, ServerSaid, TooFewAcks
from holdtight.base.values import Grant
from holdtight.core.acks import Acknowledging, first_wait
from holdtight.core.contend import Answer, Asking, abandon, patience
from holdtight.stores.times import marker_for

__all__ = ["ACKED", "AsyncAckedLock", "barrier"]


class AsyncAckedLock(AsyncLock):
    __slots__ = ()

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        locks, prepared = self._locks, self.prepared
        client = locks.client
        transport = locks.transport()
        connection = transport.ready()
        started, owner = self.terms.clock(), client.owner()
        if connection is None or client.lead is None or started > client.recorded_until:
            return await self._slowly(self.asking(owner, wait, started, who, or_none=or_none), who, transport)
        longest = patience(prepared, wait, locks.settings.connect_timeout)
        limit = locks.store.not_after(started, longest)
        queue = wait is None or wait > 0
        head = (prepared.attempt if queue else prepared.ask) or prepared.pack_attempt(queue=queue)
        request = b"%b%b$16\r\n%016d\r\n$24\r\n%b\r\n" % (head, connection.inbox_word, limit, owner)
        by: Acknowledging = locks.place.acks
        grant: Grant | None = None
        count = 0
        try:
            reply = await connection.ask(request, longest)
            if reply.__class__ is bytes:
                grant = Grant(int(reply), started)
                count = await transport.barrier.count(
                    by.wish(self._name, first_wait(self.terms.ttl, wait, locks.settings.connect_timeout))
                )
        except (LinkDown, ServerSaid) as failure:
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            asking.in_line = grant is not None
            return await self._slowly(asking, who, transport, connection, failure, 0 if grant else marker_for(limit))
        except BaseException as error:
            asking = self.asking(owner, wait, started, or_none=or_none)
            asking.in_line = grant is not None
            await self._undo(asking, transport, connection, 0 if grant else marker_for(limit))
            locks.report_failure(self.terms, asking, error)
            raise
        if grant is None:
            return await self._slowly(
                self.asking(owner, wait, started, who, or_none=or_none),
                who,
                transport,
                connection,
                self._understood(reply, started),
            )
        client.learn(grant.fence / 1e6, started)
        if count < by.needed or not connection.alive or self.terms.clock() - started >= prepared.valid:
            asking = self.asking(owner, wait, started, who, or_none=or_none)
            first: Answer = grant
            if count < by.needed:
                asking.in_line = True
                await self._undo(asking, transport, connection, 0)
                first = TooFewAcks(count, by.needed)
            return await self._slowly(asking, who, transport, connection, first)
        lease = self.granted(transport, owner, grant.fence, started, 0, who, count)
        if locks.events.active:
            await lease.tell(locks.report_quick_grant, lease.tenure, started)
        return lease

    async def _undo(self, asking: Asking, transport: Transport, connection: Connection, limit: int) -> None:
        with self.driver(transport, connection) as driver:
            await driver.run(abandon(asking, limit))


class AsyncAckedSemaphore(AsyncSemaphore, AsyncAckedLock):
    __slots__ = ()


class AsyncAckedCohortLock(AsyncCohortLock, AsyncAckedLock):
    __slots__ = ()


ACKED = Backend(AsyncAckedLock, Driver, Transport, lambda: AsyncAckedSemaphore, lambda: AsyncAckedCohortLock)
