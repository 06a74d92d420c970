"""`AsyncLock`: the uncontended path without a plan; the driver does everything else.

`acquire`, `release` and `owned` are functions that return a coroutine, not coroutine functions: the task that calls
them counts, see tasks.py.
"""

import asyncio
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Literal, TypeVar

from holdtight.aio.connection import Connection
from holdtight.aio.driver import Driver
from holdtight.aio.transport import Transport
from holdtight.base.clock import CLOCK_ID, LONGEST_SLEEP, boottime
from holdtight.base.plan import Bell, LinkDown, Park, Plan, ServerSaid
from holdtight.base.values import Grant, Owner
from holdtight.compat.base import Attempt, BaseLock, Number, undone
from holdtight.compat.local import Held, Shared
from holdtight.compat.plans import insist, prolong, sign
from holdtight.compat.tasks import PerTask
from holdtight.core.contend import Answer, abandon, acquire, patience
from holdtight.errors import LockError
from holdtight.stores.redis.plain_store import Plain, Polled
from holdtight.stores.times import CONNECT_SECONDS

__all__ = ["AsyncLock"]

R = TypeVar("R")
_clock = time.clock_gettime


class _Sleeper:
    """A waiting task, which a release in this process can wake."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.rung = False
        self._loop = loop
        self._alarm: asyncio.Future[bool] | None = None

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ring)
        except RuntimeError:
            pass  # the loop is closed, so the task no longer waits

    def _ring(self) -> None:
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(True)

    async def sleep(self, seconds: float) -> bool:
        if self.rung:
            self.rung = False
            return True
        alarm: asyncio.Future[bool] = self._loop.create_future()
        self._alarm = alarm
        timer = self._loop.call_later(min(max(0.0, seconds), LONGEST_SLEEP), _time_is_up, alarm)
        try:
            return await alarm
        finally:
            timer.cancel()
            self._alarm = None
            self.rung = False


def _time_is_up(alarm: "asyncio.Future[bool]") -> None:
    if not alarm.done():
        alarm.set_result(False)


class _PollingDriver(Driver):
    def __init__(self, transport: Transport, connection: Connection | None, sleeper: _Sleeper) -> None:
        super().__init__(transport, connection)
        self._sleeper = sleeper

    async def _park(self, park: Park) -> Bell | None:
        return Bell() if await self._sleeper.sleep(park.until - boottime()) else None


class AsyncLock(BaseLock):
    """redis-py's asyncio `Lock`, with the same key and value, without its known faults.

    Takes a `redis.asyncio.Redis` (or valkey-py's); reads its settings and leaves its pool alone. Arguments, methods,
    attributes and exceptions are those of redis-py; docs/migrating.md lists the differences and their reasons.
    """

    local: Shared
    _asynchronous = True

    def _new_local(self) -> Shared:
        return PerTask() if self.thread_local else Shared()

    async def __aenter__(self) -> "AsyncLock":
        if not await self.acquire():
            raise self._not_acquired()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._left_in_child(error):
            return
        try:
            await self.release()
        except self._reach.errors.LockError as failure:
            if self.raise_on_release_error:
                raise
            self._tell_unreleased(failure)

    def _transport(self) -> Transport:
        loops = self._reach.access.loops
        if loops is None:
            loops = self._reach.access.open_loops()
        transport: Transport = loops.transport()
        return transport

    # Acquire.

    def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: Number | None = None,
        token: str | bytes | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """True if the lock was acquired; False if another owner holds it and the wait, if any, is over."""
        wait = self._wait(blocking, blocking_timeout)
        text = None if token is None else self._reach.encode(token)
        return self._taken(wait, text, self.local.asker(), keep=True)

    async def do_acquire(self, token: str | bytes) -> bool:
        """One attempt with this value, which the lock object does not remember."""
        return await self._taken(0.0, self._reach.encode(token), None, keep=False)

    async def _taken(self, wait: float | None, text: bytes | None, who: Any, *, keep: bool) -> bool:
        plain = self._plain()
        owner = self._reach.access.client.owner()
        held: Held | None = None
        try:
            held = await self._take(plain, owner, wait)
            if held is None:
                return False
            if text is not None:
                if not await self._run(sign(plain, held, text)):
                    held = None
                    raise self._expired_while_acquired()
                held = self._signed(plain, held, text)
            if keep:
                self.local.keep(held, who)
            return True
        except BaseException as error:
            if held is not None or not (undone(error) or isinstance(error, asyncio.CancelledError)):
                self._interrupted(plain, owner, held, text)
            raise

    async def _take(self, plain: Plain, owner: Owner, wait: float | None) -> Held | None:
        """The uncontended path: one request, one reply, no plan."""
        transport = self._transport()
        started = _clock(CLOCK_ID)
        connection = transport.connection
        if plain.take is None or connection is None or not connection.alive:
            return await self._take_slowly(plain, Attempt(owner, wait, started), transport, None)
        longest = plain.patience if wait is None else patience(plain, wait, CONNECT_SECONDS)
        first: Answer
        try:
            reply = await connection.ask(b"%b$32\r\n%b\r\n%b" % (plain.take, owner, plain.tail), longest)
        except LinkDown as down:
            limit = plain.arrival_limit(started, longest)
            return await self._take_slowly(plain, Attempt(owner, wait, started), transport, connection, down, limit)
        except BaseException:
            with Driver(transport, connection) as driver:
                asking = self._asking(plain, Attempt(owner, wait, started))
                await driver.run(abandon(asking, plain.arrival_limit(started, longest)))
            raise
        if reply == b"OK":
            if _clock(CLOCK_ID) - started < plain.valid:
                return Held(owner, started + plain.claim.ttl)
            first = Grant(0, started)  # this process was paused: the plan asks once more
        elif reply is None:
            if wait == 0:
                return None
            first = Polled.denied(self._pause(None))
        else:
            first = ServerSaid(str(reply))
        return await self._take_slowly(plain, Attempt(owner, wait, started), transport, connection, first)

    async def _take_slowly(
        self,
        plain: Plain,
        attempt: Attempt,
        transport: Transport,
        connection: Connection | None,
        first: Answer | None = None,
        limit: int = 0,
    ) -> Held | None:
        """All other cases: no connection yet, another holder, an unwell server."""
        access = self._reach.access
        sleeper = _Sleeper(transport.loop)
        access.line.join(plain.key, sleeper)
        try:
            with _PollingDriver(transport, connection, sleeper) as driver:
                granted = await driver.run(acquire(self._asking(plain, attempt), first, limit))
        except LockError as error:
            raise self._translated(error) from error
        finally:
            access.line.leave(plain.key, sleeper)
        return None if granted is None else self._held(plain, attempt.owner, granted)

    # Release.

    def release(self) -> Coroutine[Any, Any, None]:
        """Releases the lock. If the server cannot be reached, the lock object keeps the grant: call release again."""
        return self._release(self.local.asker())

    async def _release(self, who: Any) -> None:
        held = self.local.find(who)
        if held is None:
            raise self._not_held("release")
        await self._give_back(held)

    async def do_release(self, expected_token: str | bytes) -> None:
        """Releases the lock if it has this value."""
        await self._give_back(Held.chosen(self._reach.encode(expected_token)))

    async def _give_back(self, held: Held) -> None:
        plain = self._plain()
        deletion = self._reach.access.deletion
        owner = held.owner
        connection = self._transport().ready() if held.unique else None
        failed: LinkDown | None = None
        try:
            while connection is not None:
                method = deletion.method
                try:
                    reply = await connection.ask(
                        b"%b$%d\r\n%b\r\n" % (plain.give(method), len(owner), owner), plain.give_patience
                    )
                except LinkDown as down:
                    deletion.broke()
                    failed = down
                    break
                if reply.__class__ is int:
                    deletion.proven = True
                    self._given_back(plain, held, reply, False)
                    return
                if not deletion.refused(method, reply):
                    break
            step = plain.give_step(owner)
            plan = insist(step, lambda: step, failed) if held.unique else self._giving_signed(plain, held)
            answer, asked_before = await self._run(plan)
        except BaseException as error:
            if not isinstance(error, self._reach.errors.LockError):
                self._not_given_back(plain, held)
            raise
        self._given_back(plain, held, answer, asked_before)

    # Extend and inspect.

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> Coroutine[Any, Any, Literal[True]]:
        """Adds seconds to the lock's time left, or sets it."""
        self._may_extend("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: Number, replace_ttl: bool) -> Coroutine[Any, Any, Literal[True]]:
        return self._extend(self._mine("extend"), additional_time, replace_ttl)

    async def _extend(self, held: Held, seconds: Number, replace: bool) -> Literal[True]:
        mode = "replace" if replace else "add"
        self._prolonged("extend", await self._run(prolong(self._plain(), held, seconds, mode)))
        return True

    def reacquire(self) -> Coroutine[Any, Any, Literal[True]]:
        """Sets the lock's time left to its timeout again."""
        return self.do_reacquire()

    def do_reacquire(self) -> Coroutine[Any, Any, Literal[True]]:
        return self._reacquire(self._may_extend("reacquire"))

    async def _reacquire(self, held: Held) -> Literal[True]:
        plain = self._plain()
        self._prolonged("reacquire", await self._run(prolong(plain, held, plain.claim.ttl, "set")))
        return True

    async def locked(self) -> bool:
        """True if any owner holds the lock now."""
        return await self._look() is not None

    def owned(self) -> Coroutine[Any, Any, bool]:
        """True if the caller holds the lock now."""
        return self._owned(self.local.find(self.local.asker()))

    async def _owned(self, held: Held | None) -> bool:
        return held is not None and await self._look() == held.owner

    async def _look(self) -> bytes | None:
        step = self._plain().look_step()
        found: tuple[bytes | None, bool] = await self._run(insist(step, lambda: step))
        return found[0]

    async def _run(self, plan: Plan[R]) -> R:
        transport = self._transport()
        try:
            with Driver(transport, transport.ready()) as driver:
                return await driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self._translated(error) from error
