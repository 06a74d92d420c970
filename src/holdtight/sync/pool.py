"""A pool of plain sockets, each used by one thread at a time.

Invariants:
- a link in `idle` owes no reply and has no user;
- a thread that takes a link gives it back, or scraps it, in the same call;
- the pool never repeats a request: only plans know when that is safe. (After NOSCRIPT it does: nothing has run.)
- only live links count as open: a link that an interrupt dropped leaves room for another.
"""

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import hiredis

from holdtight.base import process
from holdtight.base.clock import boottime
from holdtight.base.plan import Bell, LinkDown, ServerSaid, Step, client_closed
from holdtight.base.values import Owner
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.client_records import record_request
from holdtight.stores.redis.script import with_missing_script, with_missing_scripts

__all__ = ["Transport"]


class Transport:
    def __init__(self, place: Place, *, connect_timeout: float, max_connections: int | None, spin: bool = True) -> None:
        self.place = place
        self._spin = spin
        self.idle: list[Link] = []
        """Last in, first out: the warmest link is used first. `append` and `pop` are atomic."""
        self._connect_timeout = connect_timeout
        self._most = max_connections
        self.unlimited = max_connections is None
        """If so, a link that owes no reply may go straight back into `idle`."""
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        """With a limit: the open links, and a placeholder for each link that is being opened."""
        self._room = threading.Condition() if max_connections else None
        self.closed = False
        self._parked: set[Link] = set()
        """Links that a thread sleeps on: `close` wakes them."""
        self._closing = threading.Condition()
        """Held while waking links: a link closed meanwhile could wake a new user of its file descriptor."""
        if self.unlimited:
            place.spare = partial(_spare, self.idle)  # not of self: a dropped client is collected at once
        place.pausing.add(self)
        process.tell_of_fork(self)

    def take(self, timeout: float, *, beyond: bool = False) -> Link:
        """Returns a link for this thread alone. A release passes `beyond` and may exceed the limit of connections: it
        must never wait for links that waiters use."""
        until = boottime() + timeout
        try:
            link = self.idle.pop()
        except IndexError:
            pass
        else:
            return self._announced(link, timeout)
        opening: Any = None
        if self._room is not None:
            with self._room:
                while not beyond and len(self._open) >= (self._most or 0):
                    if self.closed:
                        raise client_closed()
                    try:
                        return self.idle.pop()  # also before the first wait: a link may have come back just now
                    except IndexError:
                        pass
                    if not self._room.wait(until - boottime()):
                        raise LinkDown(f"all {self._most} connections (max_connections) are in use", sent=False)
                opening = _Opening()
                self._open.add(opening)
        try:
            link = self.place.open(max(0.001, min(until - boottime(), self._connect_timeout)))
        except BaseException:
            self._leave(opening)
            raise
        if self._room is not None:
            with self._room:
                self._open.add(link)
                self._open.discard(opening)
        if self._spin:
            link.look_out()
        if self.place.client.known:
            self.place.runtime.keeper.watch(self.place)
        return link

    def take_idle(self) -> Link | None:
        return _spare(self.idle)

    def look_again(self) -> None:
        """Lets idle links try spinning again. Called once every so many acquisitions."""
        if self._spin:
            for link in list(self.idle):
                link.look_out()

    def _announced(self, link: Link, timeout: float) -> Link:
        """Renews the client's record if it has expired during idle time, so that `inspect` can name this client."""
        if self.place.client.announcement_due():
            try:
                link.call(record_request(self.place.client), timeout)
            except BaseException:
                self.place.client.recorded_until = 0.0
                self.scrap(link)
                raise
            self.place.runtime.keeper.watch(self.place)
        return link

    def give(self, link: Link) -> None:
        if link.owed or self.closed:
            self.scrap(link)
            return
        self.idle.append(link)
        if self._room is not None:
            with self._room:
                self._room.notify()

    def scrap(self, link: Link) -> None:
        link.close()
        self._leave(link)

    def lose(self, link: Link, down: LinkDown) -> None:
        """Drops a failed link. If the server had closed it, the idle links are as old and are dead as well."""
        self.scrap(link)
        while down.stale and self.idle:
            try:
                self.scrap(self.idle.pop())
            except IndexError:
                break

    def _leave(self, gone: Any) -> None:
        if self._room is not None:
            with self._room:
                self._open.discard(gone)
                self._room.notify()

    def perform(self, link: Link, step: Step, patience: float | None = None) -> Any:
        """One round trip. Raises ServerSaid for an error reply."""
        patience = step.patience if patience is None else patience
        request = step.packed(link.inbox_word)
        call = link.call_aside if step.aside else link.call
        sent = self.place.clock()
        reply = call(request, patience)
        if isinstance(reply, hiredis.ReplyError):
            again = with_missing_script(request, reply)
            if again is None:
                raise self.refusal(reply)
            sent = self.place.clock()
            reply = call(again, patience)
            if isinstance(reply, hiredis.ReplyError):
                raise self.refusal(reply)
        return step.read(reply, sent)

    def refusal(self, reply: Exception) -> LinkDown | ServerSaid:
        """The error for an error reply."""
        said = str(reply)
        return LinkDown(said, sent=False) if self.place.doubt(said) else ServerSaid(said)

    def perform_all(self, link: Link, steps: Sequence[Step]) -> list[Any]:
        """One round trip for all steps. An error reply is a ServerSaid in the result."""
        patience = max(step.patience for step in steps)
        requests = [step.packed(link.inbox_word) for step in steps]
        sent = self.place.clock()
        replies = link.call_all(requests, patience)
        again = with_missing_scripts(requests, replies)
        if again:
            for at, reply in zip(again, link.call_all(list(again.values()), patience), strict=True):
                replies[at] = reply
        return [
            ServerSaid(str(reply)) if isinstance(reply, hiredis.ReplyError) else step.made_of(reply, sent)
            for step, reply in zip(steps, replies, strict=True)
        ]

    def park(self, link: Link, owner: Owner, until: float) -> Bell | None:
        """Sleeps on this link until a bell for this owner, or until `until`. Raises LinkDown once the client is closed:
        a thread that starts to park either is seen by `close`, or sees `closed`."""
        self._parked.add(link)
        try:
            bell = None if self.closed else link.park(owner, until)
        finally:
            with self._closing:
                self._parked.discard(link)
        if bell is None and self.closed:
            raise client_closed()
        return bell

    def pause(self, seconds: float) -> None:
        """Sleeps without a link. Raises LinkDown once the client is closed."""
        with self._closing:
            if not self.closed:
                self._closing.wait(max(0.0, seconds))
        if self.closed:
            raise client_closed()

    def nudge(self) -> None:
        """Ends all pauses: what their callers wait for may be there."""
        with self._closing:
            self._closing.notify_all()

    def close(self) -> None:
        self.closed = True
        self.unlimited = False
        with self._closing:
            self._closing.notify_all()
            for link in list(self._parked):
                link.wake()
        if self._room is not None:
            with self._room:
                self._room.notify_all()
        while self.idle:
            try:
                link = self.idle.pop()
            except IndexError:
                break
            self.scrap(link)

    def after_fork(self) -> None:
        for link in self.idle:
            link.abandon()
        self.idle.clear()
        self._open = weakref.WeakSet()
        self._room = threading.Condition() if self._most else None
        self._parked = set()
        self._closing = threading.Condition()


class _Opening:
    """Placeholder for a link that is being opened."""


def _spare(idle: list[Link]) -> Link | None:
    try:
        return idle.pop()
    except IndexError:
        return None
