"""Connections of one client: one per event loop, opened when first needed and again after a failure."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.aio.connection import Connection
from holdtight.base.plan import SLOW_TO_CONNECT, LinkDown, ServerSaid, Step, client_closed
from holdtight.base.process import start_thread
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.client_records import record_request
from holdtight.stores.redis.script import with_missing_script, with_missing_scripts
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.aio.barrier import Barrier

__all__ = ["Transport", "ignore"]

LET_GO_AGAIN = 0.1


class Transport:
    """A client's connection on one loop."""

    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop, *, connect_timeout: float) -> None:
        self.place = place
        self.loop = loop
        self.connection: Connection | None = None
        self.deliver = self._deliver
        """Bound once: every tenure refers to it, and one bound method per tenure would cost the garbage collector."""
        self.closed = False
        self._connect_timeout = connect_timeout
        self._connecting: asyncio.Future[Connection] | None = None
        self._late: _Opened | None = None
        """A link that was opened after the client was closed, for a task that was not done: it ends with this."""
        self.wanted = 0
        """The number of tasks that wait for the connection."""
        self._barrier: Barrier | None = None
        self.pauses: set[asyncio.Future[Any]] = set()
        """Futures of tasks that wait, but not on the connection: `refuse` ends them."""
        place.pausing.add(self)

    @property
    def barrier(self) -> "Barrier":
        """Counts replicas, on another connection to the same server."""
        if self._barrier is None:
            from holdtight.aio.barrier import Barrier  # for clients with `acks`

            self._barrier = Barrier(type(self)(self.place, self.loop, connect_timeout=self._connect_timeout))
        return self._barrier

    @property
    def _counting(self) -> bool:
        return self._barrier is not None and self._barrier.in_use

    def ready(self) -> Connection | None:
        """The connection if it exists and is alive."""
        connection = self.connection
        return connection if connection is not None and connection.alive else None

    async def connect(self, timeout: float) -> Connection:
        """Returns the connection, opened if necessary: all tasks that need it wait for one attempt."""
        connection = self.ready()
        if connection is not None:
            return connection
        if self.place.in_process:
            return self._connect_in_process(timeout)
        connecting = self.begin_connecting()
        self.wanted += 1
        try:
            done, _ = await asyncio.wait([connecting], timeout=timeout)
        finally:
            self.wanted -= 1
        if not done:
            before = f"; before that: {self.place.trouble}" if self.place.trouble else ""
            raise LinkDown(SLOW_TO_CONNECT + before, sent=False, silent=True)
        return done.pop().result()

    @property
    def connecting(self) -> bool:
        return self._connecting is not None

    def begin_connecting(self) -> "asyncio.Future[Connection]":
        """The future of the one attempt that all tasks share."""
        if self._connecting is None:
            self._connecting = self._start_connecting()
        return self._connecting

    def _connect_in_process(self, timeout: float) -> Connection:
        from holdtight.aio.memory_connection import LocalConnection

        self.connection = LocalConnection(self.place.open(timeout), self.loop, self.place.runtime)
        self.place.runtime.keeper.watch(self.place)
        return self.connection

    def _start_connecting(self) -> "asyncio.Future[Connection]":
        future: asyncio.Future[Connection] = self.loop.create_future()
        future.add_done_callback(self._connected)

        def connect() -> None:
            opened = _Opened()
            error: Exception | None = None
            try:
                opened.link = self.place.open(self._connect_timeout)
            except Exception as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._settle, future, opened, error)

        start_thread(connect, "holdtight-connect")
        return future

    def _settle(self, future: "asyncio.Future[Connection]", opened: "_Opened", error: Exception | None) -> None:
        link, opened.link = opened.link, None
        if link is not None and self.closed and not self.wanted:
            link.close()
            link, error = None, client_closed()
        if link is None:
            assert error is not None
            future.set_exception(error)
            ignore(future)  # waiting tasks get the error; if the loop ends first, there must be no warning
            return
        if self.closed:  # the loop may end before the last task has closed it
            self._late, opened.link = opened, link
        self.connection = self._connection(link)
        future.set_result(self.connection)
        if self.place.client.known:
            self.place.runtime.keeper.watch(self.place)

    def _connection(self, link: Link) -> Connection:
        return Connection(link, self.loop, self.place.runtime)

    def _connected(self, future: "asyncio.Future[Connection]") -> None:
        self._connecting = None

    async def perform(self, connection: Connection, step: Step) -> Any:
        """One round trip. Raises ServerSaid for an error reply."""
        client = self.place.client
        if client.announcement_due():
            # Goes out in one write with the request below; its answer is ignored.
            connection.ask(record_request(client), step.patience).add_done_callback(ignore)
            self.place.runtime.keeper.watch(self.place)
        request = step.packed(connection.inbox_word)
        sent = self.place.clock()
        reply = await connection.ask(request, step.patience)
        if isinstance(reply, hiredis.ReplyError):
            again = with_missing_script(request, reply)
            if again is None:
                raise self.refusal(connection, reply)
            sent = self.place.clock()
            reply = await connection.ask(again, step.patience)
            if isinstance(reply, hiredis.ReplyError):
                raise self.refusal(connection, reply)
        return step.read(reply, sent)

    def send(self, connection: Connection, request: bytes) -> None:
        """Sends a request whose answer no task waits for."""

        def answered(future: "asyncio.Future[Any]") -> None:
            ignore(future)
            said = None if future.cancelled() or future.exception() else future.result()
            again = with_missing_script(request, said) if isinstance(said, hiredis.ReplyError) else None
            if again is not None:
                connection.ask(again, LONGEST_PATIENCE).add_done_callback(ignore)

        connection.ask(request, LONGEST_PATIENCE).add_done_callback(answered)

    def refusal(self, connection: Connection, reply: Exception) -> LinkDown | ServerSaid:
        said = str(reply)
        if not self.place.doubt(said):
            return ServerSaid(said)
        connection.fail(LinkDown(said, sent=True))
        return LinkDown(said, sent=False)

    async def perform_all(self, connection: Connection, steps: Sequence[Step]) -> list[Any]:
        """One round trip for all steps. An error reply is a ServerSaid in the result."""
        requests = [step.packed(connection.inbox_word) for step in steps]
        patience = max(step.patience for step in steps)
        sent = self.place.clock()
        replies = await asyncio.gather(*[connection.ask(request, patience) for request in requests])
        again = with_missing_scripts(requests, replies)
        if again:
            more = await asyncio.gather(*[connection.ask(request, patience) for request in again.values()])
            for at, reply in zip(again, more, strict=True):
                replies[at] = reply
        return [
            ServerSaid(str(reply)) if isinstance(reply, hiredis.ReplyError) else step.made_of(reply, sent)
            for step, reply in zip(steps, replies, strict=True)
        ]

    def _deliver(self, hook: Callable[[], object]) -> None:
        """Runs a hook of the keeper on this loop."""
        self.place.runtime.call_soon(self.loop, hook)

    def rest(self) -> None:
        """Called when a task is done. Once the client is closed, the connection stays only for tasks that are not."""
        if self.closed and self.connection is not None and self.connection.idle and not self._counting:
            self.close()

    @property
    def in_use(self) -> bool:
        """A task waits on the connection, or a reply is owed."""
        return self._counting or (self.connection is not None and not self.connection.idle)

    def let_go(self) -> None:
        """After the client was dropped: closes as soon as the connection is not in use."""
        self.closed = True
        if self.in_use and not self.loop.is_closed():
            self.place.runtime.call_at(self.loop, self.place.clock() + LET_GO_AGAIN, self.let_go)
        else:
            self.close()

    async def pause(self, until: float) -> None:
        """Sleeps until `until`, or until the client is closed."""
        over = self.loop.create_future()
        self.pauses.add(over)
        timer = self.place.runtime.call_at(self.loop, until, _end_pause, over)
        try:
            await over
        finally:
            timer.cancel()
            self.pauses.discard(over)

    def nudge(self) -> None:
        """Ends all pauses: what their tasks wait for may be there. Called in any thread."""
        self.place.runtime.call_soon(self.loop, self._end_pauses)

    def _end_pauses(self) -> None:
        for over in list(self.pauses):
            _end_pause(over)

    def refuse(self) -> None:
        """The client is closed: wakes all waiting tasks. The connection stays, to undo their requests."""
        self.closed = True
        if not self.loop.is_closed():
            self._end_pauses()
            if self.connection is not None:
                self.connection.wake()

    def close(self) -> None:
        self.refuse()
        if self._barrier is not None:
            self._barrier.close()
        if self.connection is not None:
            if self.loop.is_closed():
                self.connection.discard()
            else:
                self.connection.close()
            self.connection = None


class _Opened:
    """A new link on its way to its loop. A loop that ends before it takes the link drops it, which closes it."""

    link: Link | None = None

    def __del__(self) -> None:
        if self.link is not None:
            self.link.close()


def _end_pause(over: "asyncio.Future[Any]") -> None:
    if not over.done():
        over.set_result(None)


def ignore(future: "asyncio.Future[Any]") -> None:
    """Retrieves the exception of a future that no task waits for, so that asyncio does not warn."""
    if not future.cancelled():
        future.exception()
