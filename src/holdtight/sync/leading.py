"""`Locks.leader`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import wait_seconds
from holdtight.base.identity import identity
from holdtight.base.jobs import Leadership
from holdtight.base.public import PublicLeader
from holdtight.base.values import Waiter
from holdtight.base.wrong_with import BlockingOnly
from holdtight.clients.decorating import begun
from holdtight.config.settings import UNSET, unknown_options
from holdtight.core.ending import release
from holdtight.errors import LeaseLost, LockError, LockTimeout, Unavailable
from holdtight.recipes import leading
from holdtight.sync.lease import Lease

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["Leader", "Term"]


class Term(leading.TermLike, Lease):
    """One term of a leader: a lease that counts as lost `grace` before it ends, so that its work can stop in time.

    Example:
        >>> with locks.leader("poller") as term:
        ...     term.check()
        ...     term.proclaim("10.0.0.5:80")
    """

    public = (*Lease.public, "proclaim", "resign", "since")

    def resign(self) -> None:
        """Ends the term: the next in line leads at once. The same as `release`.

        Example:
            >>> term = locks.leader("poller").campaign()
            >>> term.resign()
        """
        self.release()

    def proclaim(self, label: str) -> None:
        """Changes the `label` that `current()` and `inspect()` show. Raises LeaseLost, Unavailable; NotSupported on a
        quorum.

        Example:
            >>> with locks.leader("poller") as term:
            ...     term.proclaim("10.0.0.5:80")
            ...     locks.leader("poller").current().label
            '10.0.0.5:80'
        """
        self.check()
        client = self.lock.client
        client.run(leading.proclaim(client.place, self.name, self.tenure, label), self.name)


class Leader(PublicLeader, BlockingOnly):
    """A candidate for one name, which may lead once or many times. `locks.leader(name)` makes one. `with leader` leads
    for a block, `campaign` until the term is resigned, and `run` again and again.

    Example:
        >>> leader = locks.leader("poller", label="10.0.0.5:80")
        >>> with leader as term:
        ...     print(leader.current().label, term.lost)
        10.0.0.5:80 False
    """

    def __init__(self, locks: Any, name: str, options: dict[str, Any], grace: Any) -> None:
        self._locks = locks
        self._name = name
        self._options = locks.lock(name, **options).options._replace(cohort=False)
        self._grace = leading.grace_of(grace, self._options, locks.store.drift)
        self._term: Term | None = None
        """The term of `run`."""
        self._entered: list[Term] = []
        """The terms of the `with leader` blocks that are open, in whatever thread."""
        self._running = threading.Lock()
        self._stopping = False
        self._campaigner: Any = None
        """The client that campaigns for `run`: closing it ends its wait."""
        self._sleeper: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self._options.ttl:g}>"

    def campaign(self, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Term:
        """Waits to be elected, and returns the Term. `wait` is how long, and the leader's own `wait` if it is left out.

        Raises as `Lock.acquire`.

        Example:
            >>> term = locks.leader("poller").campaign(wait=5)
            >>> term.resign()
        """
        if unknown:
            raise unknown_options("campaign", unknown, ("wait",))
        lock = leading.term_lock(self._locks, self._name, self._options, self._grace)
        lease = lock.acquire(wait=self._options.wait if wait is UNSET else wait_seconds(wait))
        term: Term = leading.term_of(Term, lease, self)
        return term

    def __enter__(self) -> Term:
        who = identity()
        depth = len(who.stack)
        term: Term | None = None
        try:
            term = self.campaign()
            self._entered.append(term)
            return term.__enter__()
        except BaseException:
            if term is not None:
                term.forsake()  # an interrupt may have come before it was in its block
                if term in self._entered:
                    self._entered.remove(term)
            who.break_off(depth)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        term: Term | None = None
        try:
            term = leading.term_that_ends(self._entered, identity().stack)
            if term is None:
                raise leading.block_left_elsewhere(self._name)
            term.__exit__(kind, error, trace)
        except BaseException:
            term = term or leading.term_that_ends(self._entered, identity().stack)
            if term is not None and not term.closed and term.block_key is not None:
                identity().break_off_end(term.block_key, term)
            raise
        finally:
            if term is not None and term in self._entered:
                self._entered.remove(term)

    # Running.

    def run(
        self,
        fn: Callable[[Term], object],
        *,
        pause: "Duration" = 1,
        on_error: Literal["raise", "campaign"] = "raise",
        on_overrun: Literal["log", "exit"] = "log",
        **unknown: "Never",
    ) -> None:
        """Campaigns, calls `fn(term)` while it leads, and campaigns again, until `stop()`. Never calls it twice at a
        time.

        Options:
            fn: the work, which gets the term. When the term is lost it must end, so it looks at `term.lost` or calls
                `term.check()`.
            pause: how long to wait before the next campaign after `fn` has returned, so that others may lead. Default
                1 s.
            on_error: what an exception of `fn` does. "raise" resigns and raises it here; "campaign" resigns, logs it,
                and campaigns again. Default "raise".
            on_overrun: what to do if `fn` still runs when the lease ends, so that another may lead. "log" logs an
                error; "exit" ends the process at once, with code 76 and without cleaning up. Default "log".

        Raises what `fn` raises, unless `on_error` says otherwise; RuntimeError if this leader runs already, or the
        client is closed; TypeError or ValueError for what is not allowed. A server that cannot be reached raises
        nothing: `run` tries for ever.

        Example:
            >>> leader = locks.leader("poller")
            >>> def poll(term):
            ...     print("leading")
            ...     leader.stop()
            >>> leader.run(poll, pause="2s", on_error="campaign")
            leading
        """
        if unknown:
            raise unknown_options("run", unknown, ("pause", "on_error", "on_overrun"))
        seconds = leading.check_run(pause, on_error, on_overrun)
        if leading.check_work(fn, self._name):
            raise TypeError(f"{fn!r} is async: use a leader of AsyncLocks")
        if not self._running.acquire(blocking=False):
            raise RuntimeError(f"this leader of {self._name!r} runs already")
        try:
            self._sleeper = self._locks.place.runtime.sleeper()
            while not self._stopped():
                term = self._elected()
                if term is None:
                    continue
                again = self._govern(term, fn, on_error, on_overrun)
                if again and not self._stopped():
                    self._pause(seconds)
        finally:
            term, self._term = self._term, None
            if term is not None:  # an interrupt came before its block, or at its end
                term.forsake()
            self._campaigner, campaigner = None, self._campaigner
            if campaigner is not None:
                self._locks.companions.discard(campaigner)
                campaigner.close()
            self._stopping = False
            self._running.release()

    def _stopped(self) -> bool:
        return self._stopping

    def _elected(self) -> Term | None:
        """None if it was stopped meanwhile, or the server could not be reached: campaigns for ever."""
        client = self._campaigner
        if client is None or client.closed:
            client = self._campaigner = self._locks.twin()
            self._locks.companions.add(client)
        self._locks.check_open()  # `close` has not seen the client
        if self._stopped():  # `stop` has not seen the client
            return None
        try:
            lease = leading.term_lock(client, self._name, self._options, self._grace).acquire(wait=None)
        except RuntimeError:
            if self._stopped() and not self._locks.closed:
                return None
            raise
        except (Unavailable, LockTimeout) as error:
            get_logger().warning("leader %r cannot campaign: %s", self._name, error)
            self._pause(1.0)
            return None
        term: Term = leading.term_of(Term, lease, self)
        self._term = term
        if self._stopped():
            term.force()
        return term

    def _govern(self, term: Term, fn: Callable[[Term], object], on_error: str, on_overrun: str) -> bool:
        """True if it should pause before the next campaign."""
        done, result = False, None
        try:
            leading.watch_overrun(term, self._grace, lambda: done, on_overrun)
            try:
                with term:
                    result = fn(term)
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
            if not term.closed:  # an interrupt came before its block
                term.forsake()
            if term.lost:
                self._give_up(term)
        begun(result, fn)
        return not term.lost

    def _give_up(self, term: Term) -> None:
        """A term that was lost while its lease goes on, as by `stop`: the next need not wait for its end."""
        if self._locks.place.one_release:
            with suppress(LockError, RuntimeError):
                self._locks.run(release(term.lock.prepared, term.tenure.owner, marker=0), self._name)

    def _pause(self, seconds: float) -> None:
        if not self._stopped():
            self._sleeper.sleep(self._locks.place.clock() + seconds)

    def stop(self) -> None:
        """Ends `run`: the term is lost to its work, with `LossReason.FORCED`, and `run` returns when that has ended.
        From any thread, also from a signal handler.

        Example:
            >>> leader = locks.leader("poller")
            >>> leader.run(lambda term: leader.stop())
        """
        self._stopping = True
        term, campaigner, sleeper = self._term, self._campaigner, self._sleeper
        if sleeper is not None:
            sleeper.wake(True)
        if term is not None:
            term.force()
        elif campaigner is not None:
            # In a thread: a signal handler may have interrupted code that holds a lock of the client.
            threading.Thread(target=campaigner.close, name="holdtight-stop", daemon=True).start()

    # Looking.

    def current(self) -> Leadership | None:
        """The current leader, as a `Leadership`; None if there is none. A hint: it may be over when you read it. Raises
        Unavailable.

        Example:
            >>> locks.leader("poller").current() is None
            True
        """
        return leading.leadership(self._locks.inspect(self._name))

    def contenders(self) -> tuple[Waiter, ...]:
        """The candidates that wait to lead, in order, without the leader. Each is a `Waiter`. Raises Unavailable.

        Example:
            >>> locks.leader("poller").contenders()
            ()
        """
        waiters: tuple[Waiter, ...] = self._locks.inspect(self._name).waiters
        return waiters

    def observe(self) -> Iterator[Leadership | None]:
        """Goes through who leads, now and then at every change, within a second: each a `Leadership`, or None when
        nobody leads. Ends when the client is closed. A server that cannot be reached changes nothing.

        Example:
            >>> with locks.leader("poller", label="10.0.0.5:80") as term:
            ...     next(locks.leader("poller").observe()).label
            '10.0.0.5:80'
        """
        yield from self._changes(self._locks.place.runtime.sleeper(), threading.Event())

    def _changes(self, sleeper: Any, ended: threading.Event) -> Iterator[Leadership | None]:
        last: Any = self
        while not (self._locks.closed or ended.is_set()):
            try:
                now = self.current()
            except Unavailable:
                now = last  # not known
            except RuntimeError:
                if self._locks.closed:
                    return
                raise
            if now != last:
                last = now
                yield now
            sleeper.sleep(self._locks.place.clock() + leading.WATCH_SECONDS)

    def on_change(self, callback: Callable[[Leadership | None], object]) -> Callable[[], None]:
        """Calls `callback(leadership)` now and at every change, as `observe` gives them, in a thread of its own. Its
        errors are logged. Returns a function that ends that.

        Example:
            >>> end = locks.leader("poller").on_change(lambda leadership: None)
            >>> end()
        """
        ended, sleeper = threading.Event(), self._locks.place.runtime.sleeper()

        def watch() -> None:
            for each in self._changes(sleeper, ended):
                if ended.is_set():
                    return
                try:
                    callback(each)
                except Exception:
                    get_logger().exception("leader %r: a callback failed", self._name)

        def end() -> None:
            ended.set()
            sleeper.wake(True)

        threading.Thread(target=watch, name="holdtight-observer", daemon=True).start()
        return end
