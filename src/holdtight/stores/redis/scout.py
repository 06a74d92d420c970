"""The scout: one thread per client of a Sentinel topology, which asks the Sentinels where the master is and is told
when that changes.

It has one connection to each Sentinel, subscribed to `+switch-master`, and to `+promoted-slave`, by which the Sentinel
that carries out a failover announces it a little earlier. A *round* is one question to all of them at
once; a round begins when a connection is to be opened, when a Sentinel announces a switch, when a server's answer
raises doubt, and every few seconds. Connecting (DNS, TLS, credentials) happens in threads of their own, so that a dead
Sentinel delays nobody.

Invariants:
- a caller of `ask` gets what a round says that began after the call: no address is used again without asking;
- of different answers the one with the highest config-epoch counts. One that is not above the epoch known so far counts
  only if a majority of the given Sentinels agrees on it, as after SENTINEL RESET, and none has confirmed the known one
  of late: right after a failover the majority has not heard of it yet;
- the thread ends when the place is no longer in use, and the next `ask` starts another.
"""

import select
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base import process
from holdtight.base.callbacks import report
from holdtight.base.clock import boottime
from holdtight.base.plan import NO_ANSWER, NO_THREAD, LinkDown, ServerSaid
from holdtight.base.wake_pipe import WakePipe
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.rounds import SILENT, THREAD_NAME, Rounds
from holdtight.stores.redis.watched_sentinel import Master, UnknownService, WatchedSentinel, read_answer
from holdtight.stores.times import CONNECT_SECONDS

if TYPE_CHECKING:
    from holdtight.config.targets import Address, Sentinel

__all__ = ["Scout"]

ASK_SECONDS = 5.0
ASK_WITHOUT_BELL = 1.0
"""As often if a Sentinel speaks RESP2 only, and so cannot announce a switch on the connection that asks."""
LATE_SECONDS = 0.25
"""How long a round waits for the other Sentinels once one has answered."""
SILENT_SENTINEL_SECONDS = 2.0
LONGEST_RECONNECT_PAUSE = 2.0
RECONNECT_DOUBLINGS = 10
"""Of the pause before a Sentinel is connected to again. It is the longest one by then, however long it stays away."""
SECOND_NUDGE = 0.1
LEAVING_SECONDS = 0.1
FRESH_SECONDS = 2 * ASK_SECONDS
_Push = hiredis.PushNotification


class Scout(Rounds):
    def __init__(
        self,
        target: "Sentinel",
        open_link: "Callable[[Address, float], SocketLink]",
        switched: Callable[[Master, Master], None],
        nudge: Callable[[], None],
        in_use: Callable[[], bool],
    ) -> None:
        """`open_link` connects to a Sentinel and may block. `switched` and `nudge` are called in the scout's thread."""
        self._target = target
        self._open_link, self._switched, self._nudge, self._in_use = open_link, switched, nudge, in_use
        self.master: Master | None = None
        self._begin()
        process.tell_of_fork(self)

    def _begin(self) -> None:
        self._begin_rounds()
        self._pipe = WakePipe()
        self._requested: deque[Callable[[], None]] = deque()
        self._sentinels = [WatchedSentinel(address) for address in self._target.sentinels]
        self._asked_at = self._nudge_at = 0.0
        self._first_answer = 0.0

    def after_fork(self) -> None:
        """The child knows the master of its parent, but has neither its connections nor its thread."""
        self._pipe.close()
        self._begin()

    # From any thread.

    def ask(self, until: float) -> Master:
        """The master, according to a round that begins now. Raises LinkDown or ServerSaid if no Sentinel says."""
        with self._asked(until, "Sentinel"):
            assert self.master is not None
            return self.master

    def doubt(self) -> None:
        """Asks soon: what a server said may mean that it is the master no more."""
        with self._changed:
            self._want()

    def leave(self) -> None:
        """The client is closed: the thread ends as soon as its last connection has."""
        with self._changed:
            self._leaving = True
            if self._thread is not None:
                self._pipe.wake()

    def _want(self) -> int:
        self._wanted += 1
        self._leaving = False
        if self._thread is None:
            self._pipe.open()
            self._thread = process.start_thread(self._run, THREAD_NAME)
        self._pipe.wake()
        return self._wanted

    # In the scout's thread.

    def _run(self) -> None:
        poller = select.poll()
        while True:
            try:
                if self._is_over():
                    return
                self._turn(poller)
            except Exception as error:
                report("the scout stumbled and goes on", error)
                time.sleep(SECOND_NUDGE)  # the error may recur in every turn

    def _is_over(self) -> bool:
        with self._changed:
            if self._askers or self._requested or self._wanted > self._finished or self._in_use():
                return False  # `_requested` may have a connection that was made just now, and must be closed
            for each in self._sentinels:
                each.close()
                each.connect_at, each.failures = 0.0, 0
            self._pipe.close()
            self._pipe = WakePipe()
            self._thread = None
            return True

    def _turn(self, poller: select.poll) -> None:
        watched = {each.link.fileno(): each for each in self._sentinels if each.link is not None}
        for fd in (self._pipe.fd, *watched):
            poller.register(fd, select.POLLIN)
        ready = poller.poll(max(0.0, self._wake_at() - boottime()) * 1000 + 0.5)
        for fd in (self._pipe.fd, *watched):
            poller.unregister(fd)
        self._pipe.drain()
        while self._requested:
            self._requested.popleft()()
        for fd, _ in ready:
            if fd in watched:
                self._hear(watched[fd])
        self._advance(boottime())

    def _wake_at(self) -> float:
        times = [self._asked_at + (ASK_SECONDS if self._all_ring() else ASK_WITHOUT_BELL)]
        if self._nudge_at:
            times.append(self._nudge_at)
        if self._leaving:
            times.append(boottime() + LEAVING_SECONDS)
        if self._round > self._finished:
            end = self._first_answer + LATE_SECONDS if self._first_answer else self._asked_at + SILENT_SENTINEL_SECONDS
            times.append(end)
        for each in self._sentinels:
            if each.asked:
                times.append(each.asked[0] + SILENT_SENTINEL_SECONDS)
            elif each.link is None and not each.connecting:
                times.append(max(each.connect_at, 0.0))
        return min(times)

    def _all_ring(self) -> bool:
        return all(each.link is None or each.link.handshake.protocol == 3 for each in self._sentinels)

    def _advance(self, now: float) -> None:
        if self._nudge_at and now >= self._nudge_at:
            self._nudge_at = 0.0
            self._nudge()  # for a caller that was about to pause when the switch was told
        for each in self._sentinels:
            if each.asked and now >= each.asked[0] + SILENT_SENTINEL_SECONDS:
                self._lost(each, LinkDown(NO_ANSWER, sent=False, silent=True))
            if each.link is None and not each.connecting and now >= each.connect_at:
                self._connect(each)
        if self._round > self._finished:
            self._end_round(now)
        interval = ASK_SECONDS if self._all_ring() else ASK_WITHOUT_BELL
        if self._round == self._finished and (self._wanted > self._round or now >= self._asked_at + interval):
            self._ask_all(now)
            self._end_round(now)

    def _ask_all(self, now: float) -> None:
        with self._changed:
            self._wanted = max(self._wanted, self._finished + 1)
            self._round = self._wanted
        self._asked_at, self._first_answer = now, 0.0
        for each in self._sentinels:
            each.settled = False
            if each.link is not None:
                self._ask(each)
            elif not each.connecting:
                each.settled = True  # it failed a moment ago

    def _ask(self, each: WatchedSentinel) -> None:
        """First the epoch, then the address: a failover in between makes an answer look older, never newer."""
        assert each.link is not None
        service = self._target.service
        try:
            rest = each.link.push_out(
                command("SENTINEL", "MASTER", service) + command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
            )
        except LinkDown as down:
            self._lost(each, down)
            return
        if rest:
            self._lost(each, LinkDown("it takes no requests", sent=False, silent=True))
        else:
            each.asked.append(boottime())

    def _end_round(self, now: float) -> None:
        pending = [each for each in self._sentinels if not each.settled]
        good = bool(self._first_answer)
        if good and now < self._first_answer + LATE_SECONDS and any(not each.slow for each in pending):
            return
        if not good and pending and now < self._asked_at + SILENT_SENTINEL_SECONDS:
            return
        for each in pending:
            each.slow = True
        if good and self.master is None:  # the first round: only now are all answers there
            told = [each.told for each in self._sentinels if each.told is not None]
            self._follow(max(told, key=lambda each: (each.epoch, told.count(each))))
        with self._changed:
            self._error = None if good else self._failure()
            self._finished = self._round
            self._changed.notify_all()

    def _failure(self) -> LinkDown | ServerSaid:
        errors = [(each.address.endpoint, each.error) for each in self._sentinels]
        for endpoint, error in errors:
            if isinstance(error, ServerSaid):
                return ServerSaid(f"Sentinel {endpoint}: {error}")
        if any(isinstance(error, UnknownService) for _, error in errors):
            return LinkDown(f"no Sentinel knows a service called {self._target.service!r}", sent=False)
        causes = "; ".join(f"{endpoint}: {error or SILENT}" for endpoint, error in errors)
        return LinkDown(f"no Sentinel can be asked for the master ({causes})", sent=False)

    # One Sentinel.

    def _connect(self, each: WatchedSentinel) -> None:
        each.connecting = True

        def connect() -> None:
            link: SocketLink | None = None
            error: LinkDown | ServerSaid | None = None
            try:
                link = self._open_link(each.address, CONNECT_SECONDS)
            except (LinkDown, ServerSaid) as raised:
                error = raised
            except Exception as raised:  # credentials come from user code
                error = LinkDown(f"{type(raised).__name__}: {raised}", sent=False)
            with self._changed:
                if self._thread is None or each not in self._sentinels:
                    each.connecting = False
                    if link is not None:
                        link.close()
                    return
                self._requested.append(lambda: self._connected(each, link, error))
                self._pipe.wake()

        try:
            process.start_thread(connect, "holdtight-connect")
        except RuntimeError as error:
            self._connected(each, None, LinkDown(f"{NO_THREAD}: {error}", sent=False))

    def _connected(self, each: WatchedSentinel, link: SocketLink | None, error: LinkDown | ServerSaid | None) -> None:
        each.connecting = False
        if link is None:
            assert error is not None
            self._lost(each, error)
            return
        each.link, each.slow = link, False
        link.stop_blocking()
        self._ask(each)

    def _lost(self, each: WatchedSentinel, error: LinkDown | ServerSaid) -> None:
        each.close()
        each.error, each.settled = error, True
        each.failures += 1
        each.connect_at = boottime() + min(LONGEST_RECONNECT_PAUSE, 0.02 * 2 ** min(each.failures, RECONNECT_DOUBLINGS))

    def _hear(self, each: WatchedSentinel) -> None:
        if each.link is None:
            return
        try:
            items = each.link.pump()
        except (LinkDown, hiredis.ProtocolError) as error:
            self._lost(each, error if isinstance(error, LinkDown) else LinkDown(str(error), sent=False))
            self.doubt()  # it may have ended together with the master
            return
        for item in items:
            if item.__class__ is _Push:
                if item[0] == b"message" and self._target.service.encode() in item[2].split(b" "):
                    self._ask(each)
                    self.doubt()
                continue
            each.replies.append(item)
            if len(each.replies) == 2 and each.asked:
                answer, each.replies = each.replies, []
                self._answered(each, each.asked.popleft(), *answer)

    def _answered(self, each: WatchedSentinel, sent: float, state: Any, address: Any) -> None:
        now_asked = sent >= self._asked_at  # otherwise this answers an earlier round
        each.settled = each.settled or now_asked
        each.slow, each.failures = False, 0
        each.error = None
        told = read_answer(state, address)
        if not isinstance(told, Master):
            each.error, each.told = told, None
            return
        each.told, each.told_at = told, boottime()
        if now_asked and not self._first_answer:
            self._first_answer = each.told_at
        if self.master is not None and told != self.master and self._is_believed(told):
            self._follow(told)

    def _is_believed(self, told: Master) -> bool:
        assert self.master is not None
        if told.epoch > self.master.epoch:
            return True
        since = boottime() - FRESH_SECONDS
        lately = [each.told for each in self._sentinels if each.told_at > since]
        return self.master not in lately and lately.count(told) > len(self._sentinels) // 2

    def _follow(self, told: Master) -> None:
        with self._changed:
            old, self.master = self.master, told
        if old is not None and old.where != told.where:
            self._nudge_at = boottime() + SECOND_NUDGE
            self._switched(old, told)
