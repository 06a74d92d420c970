"""`Lock` for blocking code: the uncontended path without a plan; the driver does everything else."""

import threading
import time
from types import TracebackType
from typing import Literal, TypeVar

from holdtight.base.clock import CLOCK_ID, LONGEST_SLEEP, boottime
from holdtight.base.plan import Bell, LinkDown, Park, Plan, ServerSaid
from holdtight.base.values import Grant, Owner
from holdtight.compat.base import Attempt, BaseLock, Number, undone
from holdtight.compat.local import Held, PerThread, Shared
from holdtight.compat.plans import insist, prolong, sign
from holdtight.core.contend import Answer, abandon, acquire, patience
from holdtight.errors import LockError
from holdtight.stores.boundary import Link
from holdtight.stores.redis.plain_store import Plain, Polled
from holdtight.stores.times import CONNECT_SECONDS
from holdtight.sync.driver import Driver
from holdtight.sync.pool import Transport

__all__ = ["Lock"]

R = TypeVar("R")
_clock = time.clock_gettime


class _Sleeper:
    """A waiting thread, which a release in this process can wake."""

    def __init__(self) -> None:
        self.rung = False
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def sleep(self, seconds: float) -> bool:
        rung = self._event.wait(min(max(0.0, seconds), LONGEST_SLEEP))
        self._event.clear()
        self.rung = False
        return rung


class _PollingDriver(Driver):
    """Returns its connection to the pool between two attempts."""

    def __init__(self, transport: Transport, link: Link | None, sleeper: _Sleeper) -> None:
        super().__init__(transport, link)
        self._sleeper = sleeper

    def _park(self, park: Park) -> Bell | None:
        link, self._link = self._link, None
        if link is not None:
            self._transport.give(link)
        return Bell() if self._sleeper.sleep(park.until - boottime()) else None


class Lock(BaseLock):
    """redis-py's `Lock`, with the same key and value, without its known faults.

    Takes a `redis.Redis` (or a `valkey.Valkey`); reads its settings and leaves its pool alone. Arguments, methods,
    attributes and exceptions are those of redis-py; docs/migrating.md lists the differences and their reasons.
    """

    local: Shared

    def _new_local(self) -> Shared:
        return PerThread() if self.thread_local else Shared()

    def __enter__(self) -> "Lock":
        before = self.local.find(self.local.asker())
        try:
            if self.acquire():
                return self
        except BaseException:
            self._not_entered(before)
            raise
        raise self._not_acquired()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._left_in_child(error):
                self.release()
        except BaseException as failure:
            if not isinstance(failure, self._reach.errors.LockError):
                self._let_go()
            elif not self.raise_on_release_error:
                self._tell_unreleased(failure)
                return
            raise

    # Acquire.

    def acquire(
        self,
        sleep: Number | None = None,
        blocking: bool | None = None,
        blocking_timeout: Number | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """True if the lock was acquired; False if another owner holds it and the wait, if any, is over."""
        if sleep is not None:
            self._pause(sleep)
        text = None if token is None else self._reach.encode(token)
        before = self.local.find(self.local.asker())
        try:
            return self._taken(self._wait(blocking, blocking_timeout), sleep, text, keep=True)
        except BaseException:
            self._not_entered(before)
            raise

    def do_acquire(self, token: str | bytes) -> bool:
        """One attempt with this value, which the lock object does not remember."""
        return self._taken(0.0, None, self._reach.encode(token), keep=False)

    def _taken(self, wait: float | None, sleep: Number | None, text: bytes | None, *, keep: bool) -> bool:
        plain = self._plain()
        client = self._reach.access.client
        try:
            owner = client.owners.pop()
        except IndexError:
            owner = client.owner()
            self._reach.access.transport.look_again()
        held: Held | None = None
        try:
            held = self._take(plain, owner, wait, sleep)
            if held is None:
                return False
            if text is not None:
                if not self._run(sign(plain, held, text)):
                    held = None
                    raise self._expired_while_acquired()
                held = self._signed(plain, held, text)
            if keep:
                self.local.keep(held, self.local.asker())
            return True
        except BaseException as error:
            if held is not None or not undone(error):
                self._interrupted(plain, owner, held, text)
            raise

    def _take(self, plain: Plain, owner: Owner, wait: float | None, sleep: Number | None) -> Held | None:
        """The uncontended path: one request, one reply, no plan."""
        transport = self._reach.access.transport
        started = _clock(CLOCK_ID)
        if plain.take is None:
            return self._take_slowly(plain, Attempt(owner, wait, started, sleep), None)
        try:
            link = transport.idle.pop()
        except IndexError:
            return self._take_slowly(plain, Attempt(owner, wait, started, sleep), None)
        longest = plain.patience if wait is None else patience(plain, wait, CONNECT_SECONDS)
        try:
            reply = link.call(b"%b$32\r\n%b\r\n%b" % (plain.take, owner, plain.tail), longest)
        except LinkDown as down:
            transport.lose(link, down)
            limit = plain.arrival_limit(started, longest)
            return self._take_slowly(plain, Attempt(owner, wait, started, sleep), None, down, limit)
        except BaseException:
            with Driver(transport, link) as driver:
                asking = self._asking(plain, Attempt(owner, wait, started, sleep))
                driver.run(abandon(asking, plain.arrival_limit(started, longest)))
            raise
        if reply == b"OK" and _clock(CLOCK_ID) - started < plain.valid:
            transport.idle.append(link)
            return Held(owner, started + plain.claim.ttl)
        if reply is None and wait == 0:
            transport.idle.append(link)
            return None
        first: Answer
        if reply == b"OK":
            first = Grant(0, started)  # this process was paused: the plan asks once more
        elif reply is None:
            first = Polled.denied(self._pause(sleep))
        else:
            first = ServerSaid(str(reply))
        return self._take_slowly(plain, Attempt(owner, wait, started, sleep), link, first)

    def _take_slowly(
        self,
        plain: Plain,
        attempt: Attempt,
        link: Link | None,
        first: Answer | None = None,
        limit: int = 0,
    ) -> Held | None:
        """All other cases: no connection yet, another holder, an unwell server."""
        access = self._reach.access
        sleeper = _Sleeper()
        access.line.join(plain.key, sleeper)
        try:
            with _PollingDriver(access.transport, link, sleeper) as driver:
                granted = driver.run(acquire(self._asking(plain, attempt), first, limit))
        except LockError as error:
            raise self._translated(error) from error
        finally:
            access.line.leave(plain.key, sleeper)
        return None if granted is None else self._held(plain, attempt.owner, granted)

    # Release.

    def release(self) -> None:
        """Releases the lock. If the server cannot be reached, the lock object keeps the grant: call release again."""
        try:
            self._give_back(self._mine("release"))
        except BaseException as error:
            if not isinstance(error, self._reach.errors.LockError):
                self._let_go()
            raise

    def do_release(self, expected_token: str | bytes) -> None:
        """Releases the lock if it has this value."""
        self._give_back(Held.chosen(self._reach.encode(expected_token)))

    def _give_back(self, held: Held) -> None:
        plain = self._plain()
        access = self._reach.access
        transport, deletion = access.transport, access.deletion
        owner = held.owner
        failed: LinkDown | None = None
        link: Link | None = None
        if held.unique:
            try:
                link = transport.idle.pop()
            except IndexError:
                pass
        try:
            while link is not None:
                method = deletion.method
                try:
                    reply = link.call(b"%b$%d\r\n%b\r\n" % (plain.give(method), len(owner), owner), plain.give_patience)
                except LinkDown as down:
                    transport.lose(link, down)
                    deletion.broke()
                    failed = down
                    break
                except BaseException:
                    transport.scrap(link)
                    raise
                if reply.__class__ is int:
                    deletion.proven = True
                    transport.idle.append(link)
                    self._given_back(plain, held, reply, False)
                    return
                if not deletion.refused(method, reply):
                    transport.idle.append(link)
                    break
            step = plain.give_step(owner)
            plan = insist(step, lambda: step, failed) if held.unique else self._giving_signed(plain, held)
            answer, asked_before = self._run(plan)
        except BaseException as error:
            if not isinstance(error, self._reach.errors.LockError):
                self._not_given_back(plain, held)
            raise
        self._given_back(plain, held, answer, asked_before)

    # Extend and inspect.

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> Literal[True]:
        """Adds seconds to the lock's time left, or sets it."""
        self._may_extend("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: Number, replace_ttl: bool) -> Literal[True]:
        held = self._mine("extend")
        mode = "replace" if replace_ttl else "add"
        self._prolonged("extend", self._run(prolong(self._plain(), held, additional_time, mode)))
        return True

    def reacquire(self) -> Literal[True]:
        """Sets the lock's time left to its timeout again."""
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        held = self._may_extend("reacquire")
        plain = self._plain()
        self._prolonged("reacquire", self._run(prolong(plain, held, plain.claim.ttl, "set")))
        return True

    def locked(self) -> bool:
        """True if any owner holds the lock now."""
        return self._look() is not None

    def owned(self) -> bool:
        """True if the caller holds the lock now."""
        held = self.local.find(self.local.asker())
        return held is not None and self._look() == held.owner

    def _look(self) -> bytes | None:
        step = self._plain().look_step()
        found: tuple[bytes | None, bool] = self._run(insist(step, lambda: step))
        return found[0]

    def _run(self, plan: Plan[R]) -> R:
        try:
            with Driver(self._reach.access.transport, beyond=True) as driver:
                return driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self._translated(error) from error
