"""`AsyncLocks.leader`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from holdtight.aio.awaiting import gives_a_term, gives_an_answer
from holdtight.aio.lease import AsyncLease
from holdtight.aio.local_flights import finish
from holdtight.base.callbacks import get_logger
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import blocks_of
from holdtight.base.jobs import Leadership
from holdtight.base.public import PublicLeader
from holdtight.base.values import Waiter
from holdtight.base.wrong_with import AsyncOnly
from holdtight.clients.decorating import begun
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.ending import release
from holdtight.errors import LeaseLost, LockError, LockTimeout, Unavailable
from holdtight.recipes import leading

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["AsyncLeader", "AsyncTerm"]


class AsyncTerm(leading.TermLike, AsyncLease):
    """One term of a leader: a lease that counts as lost `grace` before it ends, so that its work can stop in time.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks, locks.leader("poller") as term:
        ...         term.check()
        ...         await term.proclaim("10.0.0.5:80")
        ...         await term.resign()
        >>> asyncio.run(main())
    """

    public = (*AsyncLease.public, "proclaim", "resign", "since")

    async def resign(self) -> None:
        """Ends the term: the next in line leads at once. The same as `release`."""
        await self.release()

    async def proclaim(self, label: str) -> None:
        """Changes the `label` that `current()` and `inspect()` show. Raises LeaseLost, Unavailable; NotSupported on a
        quorum.
        """
        self.check()
        client = self.lock.client
        await client.run(leading.proclaim(client.place, self.name, self.tenure, label), self.name)


class AsyncLeader(PublicLeader, AsyncOnly):
    """A candidate for one name, which may lead once or many times. `locks.leader(name)` makes one. `async with leader`
    leads for a block, `campaign` until the term is resigned, and `run` again and again.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks:
        ...         leader = locks.leader("poller", label="10.0.0.5:80")
        ...         term = await leader.campaign(wait=5)
        ...         print((await leader.current()).label, await leader.contenders())
        ...         async for leadership in leader.observe():
        ...             print(leadership.host is not None)
        ...             break
        ...         end = leader.on_change(lambda leadership: None)
        ...         end()
        ...         await term.resign()
        ...
        ...         async def poll(term):
        ...             print("leading")
        ...             leader.stop()
        ...             await asyncio.sleep(60)
        ...
        ...         await leader.run(poll, pause="2s", on_error="campaign")
        >>> asyncio.run(main())
        10.0.0.5:80 ()
        True
        leading
    """

    def __init__(self, locks: Any, name: str, options: dict[str, Any], grace: Any) -> None:
        self._locks = locks
        self._name = name
        self._options = locks.lock(name, **options).options._replace(cohort=False)
        self._grace = leading.grace_of(grace, self._options, locks.store.drift)
        self._term: AsyncTerm | None = None
        """The term of `run`."""
        self._entered: list[AsyncTerm] = []
        """The terms of the `async with leader` blocks that are open, in whatever task."""
        self._running = False
        self._stopping = False
        self._waiting: asyncio.Task[Any] | None = None
        """A campaign or a pause of `run`, which `stop` cancels."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self._options.ttl:g}>"

    @gives_a_term
    async def campaign(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncTerm:
        """Waits to be elected, and returns the term. `wait` is how long, and the leader's own `wait` if it is left out.

        Raises as `AsyncLock.acquire`.
        """
        if unknown:
            raise unknown_options("campaign", unknown, ("wait",))
        lock = leading.term_lock(self._locks, self._name, self._options, self._grace)
        lease = await lock.acquire(wait=self._options.wait if wait is UNSET else wait_seconds(wait))
        term: AsyncTerm = leading.term_of(AsyncTerm, lease, self)
        return term

    async def __aenter__(self) -> AsyncTerm:
        term = await self.campaign()
        entered = await term.__aenter__()
        self._entered.append(term)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        term: AsyncTerm | None = leading.term_that_ends(self._entered, blocks_of(asyncio.current_task()))
        if term is None:
            raise leading.block_left_elsewhere(self._name)
        try:
            await term.__aexit__(kind, error, trace)
        finally:
            if term in self._entered:
                self._entered.remove(term)

    # Running.

    async def run(
        self,
        fn: Callable[[AsyncTerm], Awaitable[object]],
        *,
        pause: "Duration" = 1,
        on_error: Literal["raise", "campaign"] = "raise",
        on_overrun: Literal["log", "exit"] = "log",
        **unknown: "Never",
    ) -> None:
        """Campaigns, awaits `fn(term)` while it leads, and campaigns again, until `stop()`. Never calls it twice at a
        time.

        Options:
            fn: the work, which gets the term. It is cancelled when the term is lost.
            pause: how long to wait before the next campaign after `fn` has returned, so that others may lead. Default
                1 s.
            on_error: what an exception of `fn` does. "raise" resigns and raises it here; "campaign" resigns, logs it,
                and campaigns again. Default "raise".
            on_overrun: what to do if `fn` still runs when the lease ends, since it blocks the loop or goes on when it
                is cancelled. "log" logs an error; "exit" ends the process at once, with code 76 and without cleaning
                up. Default "log".

        Raises what `fn` raises, unless `on_error` says otherwise; RuntimeError if this leader runs already, or the
        client is closed; TypeError or ValueError for what is not allowed. A server that cannot be reached raises
        nothing: `run` tries for ever.
        """
        if unknown:
            raise unknown_options("run", unknown, ("pause", "on_error", "on_overrun"))
        seconds = leading.check_run(pause, on_error, on_overrun)
        if not leading.check_work(fn, self._name):
            raise TypeError(f"{fn!r} is not an async function: use a leader of Locks")
        if self._running:
            raise RuntimeError(f"this leader of {self._name!r} runs already")
        self._running = True
        try:
            while not self._stopped():
                term = await self._elected()
                if term is not None and await self._govern(term, fn, on_error, on_overrun):
                    await self._interruptible(self._sleep(seconds))
        finally:
            self._running = self._stopping = False

    def _stopped(self) -> bool:
        return self._stopping

    async def _elected(self) -> AsyncTerm | None:
        """None if it was stopped meanwhile, or the server could not be reached: campaigns for ever."""
        try:
            term: AsyncTerm | None = await self._interruptible(self.campaign(wait=None))
        except (Unavailable, LockTimeout) as error:
            get_logger().warning("leader %r cannot campaign: %s", self._name, error)
            await self._interruptible(self._sleep(1.0))
            return None
        self._term = term
        if term is not None and self._stopped():
            term.force()
        return term

    async def _sleep(self, seconds: float) -> None:
        loop, runtime = asyncio.get_running_loop(), self._locks.place.runtime
        over = loop.create_future()
        timer = runtime.call_at(loop, self._locks.place.clock() + seconds, finish, over, None)
        try:
            await over
        finally:
            timer.cancel()

    async def _interruptible(self, awaitable: Any) -> Any:
        """None if `stop` came first."""
        task = self._waiting = asyncio.ensure_future(awaitable)
        try:
            if self._stopped():
                task.cancel()
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            if not task.done():  # a second cancellation may come meanwhile, but no term any more
                await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None and isinstance(task.result(), AsyncTerm):
                await task.result().release()
            raise
        finally:
            self._waiting = None
        return None if task.cancelled() else task.result()

    async def _govern(
        self, term: AsyncTerm, fn: Callable[[AsyncTerm], Awaitable[object]], on_error: str, on_overrun: str
    ) -> bool:
        """True if it should pause before the next campaign."""
        done, result = False, None
        try:
            leading.watch_overrun(term, self._grace, lambda: done, on_overrun)
            try:
                async with term:
                    result = await fn(term)
            except LeaseLost:
                if not term.lost:  # that of another lock
                    raise
        except Exception as error:
            if on_error == "raise":
                raise
            get_logger().exception("leader %r: its work failed: %s", self._name, error)
        finally:
            done = True
            self._term = None
            if term.lost:
                await self._give_up(term)
        begun(result, fn)
        return not term.lost

    async def _give_up(self, term: AsyncTerm) -> None:
        """A term that was lost while its lease goes on, as by `stop`: the next need not wait for its end."""
        if self._locks.place.one_release:
            with suppress(LockError, RuntimeError):
                await self._locks.run(release(term.lock.prepared, term.tenure.owner, marker=0), self._name)

    def stop(self) -> None:
        """Ends `run`: its work is cancelled, and `run` returns when that has ended. From any thread, also from a signal
        handler; not awaited."""
        self._stopping = True
        term, waiting = self._term, self._waiting
        if term is not None:
            term.force()
        if waiting is not None:
            self._locks.place.runtime.call_soon(waiting.get_loop(), waiting.cancel)

    # Looking.

    @gives_an_answer
    async def current(self) -> Leadership | None:
        """The current leader, as a `Leadership`; None if there is none. A hint: it may be over when you read it. Raises
        Unavailable."""
        return leading.leadership(await self._locks.inspect(self._name))

    @gives_an_answer
    async def contenders(self) -> tuple[Waiter, ...]:
        """The candidates that wait to lead, in order, without the leader. Each is a `Waiter`. Raises Unavailable."""
        waiters: tuple[Waiter, ...] = (await self._locks.inspect(self._name)).waiters
        return waiters

    async def observe(self) -> AsyncIterator[Leadership | None]:
        """Goes through who leads, now and then at every change, within a second: each a `Leadership`, or None when
        nobody leads. Ends when the client is closed. A server that cannot be reached changes nothing."""
        last: Any = self
        while not self._locks.closed:
            try:
                now = await self.current()
            except Unavailable:
                now = last  # not known
            except RuntimeError:
                if self._locks.closed:
                    return
                raise
            if now != last:
                last = now
                yield now
            await self._sleep(leading.WATCH_SECONDS)

    def on_change(self, callback: Callable[[Leadership | None], object]) -> Callable[[], None]:
        """Calls `callback(leadership)` now and at every change, as `observe` gives them, on this event loop. Its errors
        are logged. Returns a function that ends that."""

        async def watch() -> None:
            async for each in self.observe():
                try:
                    callback(each)
                except Exception:
                    get_logger().exception("leader %r: a callback failed", self._name)

        task = asyncio.get_running_loop().create_task(watch())
        return lambda: self._locks.place.runtime.call_soon(task.get_loop(), task.cancel)
