"""The keeper's connection to one server: sends due charges in small batches, reads the replies, and never blocks.

Batches and the number of requests in flight are small, so that others keep their latency while thousands of leases
are renewed: user threads wait for the interpreter, and other clients of the same server wait behind all requests that
it already has. Several batches are in flight, so that keeper and server work at the same time. Late charges go out in
larger batches: other threads keep the keeper from running, so it must do more each time. Connecting (DNS, TLS,
credentials) happens in a separate thread. A silent connection is closed, and all requests in flight on it are
Unknown.

Invariants:
- replies come in the order of requests: the first request in flight is answered next;
- what counts against a batch's time limit is silence: replies to earlier batches extend it, later batches do not.
"""

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.callbacks import report
from holdtight.base.clock import Backoff
from holdtight.base.plan import NO_ANSWER, NO_THREAD, TOO_MANY_REPLIES, LinkDown, ServerSaid
from holdtight.base.process import start_thread
from holdtight.base.values import Owner
from holdtight.errors import quotable
from holdtight.keeper.batches import BATCH, Limits, Sent, requests_of
from holdtight.keeper.charges import SILENCE, AlarmRequest, RecordRequest
from holdtight.keeper.probing import Probing
from holdtight.keeper.recording import Recording
from holdtight.keeper.schedule import barrier_of
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.client_records import removal_request
from holdtight.stores.redis.keys import alarm
from holdtight.stores.redis.script import with_missing_script, with_script_body
from holdtight.stores.times import CONNECT_SECONDS

if TYPE_CHECKING:
    from holdtight.keeper.keeper import Charge, Keeper

__all__ = ["KeeperConnection"]

UNDER_WAY = 24
"""The most charges in flight. A multiple of BATCH, or the remainder would never be used."""
TRIES = 3
"""How often a turn makes a batch: if the process was stopped meanwhile, it begins again."""
SMALLER = 16
"""Then with so many times fewer charges: where each turn at the GIL takes a second to come, only those requests can
still be sent that are made in one turn."""
SHORTEST_SILENCE = 0.05
LOOK_AGAIN = 0.25
_RECONNECT = Backoff(first="20ms", cap="1s")
_Error = hiredis.ReplyError
_Push = hiredis.PushNotification


class KeeperConnection(Recording, Probing):
    def __init__(self, place: Place, keeper: "Keeper") -> None:
        self.place = place
        self._keeper = keeper
        self._link: Link | None = None
        self._connecting = False
        self.waiting: deque[tuple[Charge, float]] = deque()
        """Charges to send, each with its due time."""
        self.with_bodies: set[Charge] = set()
        """Charges whose next request has its script in it: ASKING before it counts for one request only, and NOSCRIPT
        would use that up."""
        self._sent: deque[Sent] = deque()
        self._limits = Limits()
        self._outgoing = b""
        self._writing = False
        self._connect_at = 0.0
        self.hindered_at = 0.0
        """When the connection was made, or when the server last did not do what a charge asked for. The keeper is not
        to blame for what was due before."""
        self._failures = 0
        self._retired = False
        self._barrier = None if place.acks is None else barrier_of(place, keeper)
        self._looked, self._look_at = float("-inf"), float("inf")
        """When it was looked whether leases are kept here, and when that is to be looked again."""
        self._broken = False
        """The last connection failed: once there is another, all leases are renewed at once."""
        self.begin_probing()

    @property
    def fd(self) -> int:
        return self._link.fileno() if self._link else -1

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def busy(self) -> bool:
        return (
            any(each.alive and not isinstance(each, RecordRequest) for each, _ in self.waiting)
            or any(each[0].alive and not isinstance(each[0], RecordRequest) for each in self._sent)
            or (self._barrier is not None and self._barrier.busy)
        )

    def enqueue_first(self, charge: "Charge", now: float) -> None:
        """Puts a charge first, with the due time of the one behind it: otherwise late charges would be sent slower."""
        self.waiting.appendleft((charge, self.waiting[0][1] if self.waiting else now))

    def take_waiting(self) -> "list[tuple[Charge, float]]":
        """Removes the charges that were not sent."""
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def begin_anew(self) -> None:
        """Connects without further pause, if it has to."""
        self._failures, self._connect_at = 0, 0.0

    def warm_up(self, now: float) -> None:
        """Connects before the first charge is due, because its time is short; takes an idle connection if there is one.
        Opening one needs the GIL repeatedly, which busy threads may not release in time."""
        if self._link is not None or self._connecting or now < self._connect_at:
            return
        spare = None if self.place.in_process else self.place.spare()
        if spare is None:
            self._connect()
            return
        try:
            spare.stop_blocking()
        except OSError:
            spare.close()
        else:
            self._connected(spare, "")

    def advance(self, now: float) -> float:
        """Does all that needs no waiting. Returns the latest moment for the next call."""
        if self._sent and now >= self._limits.end:
            self.ready(now)  # perhaps this thread did not get to run, and the reply is there
            if self._sent and now >= self._limits.end:
                self._fail(NO_ANSWER, now)
        if not self.waiting and not self._is_missed(now):
            return min(self._limits.end, self._look_at)
        if self._link is None:
            if not self._connecting and now < self._connect_at:
                return self._connect_at
            if not self._connecting:
                self._connect()
            if self._link is None:
                return float("inf")
        first, due = self.waiting[0]
        if self.waiting[-1][1] < due:  # what is sent again has been appended, and may be the latest of all
            first, due = self.waiting[-1]
        times = self._keeper.backlog.stretch(due, now, first.interval)
        late = now - due > first.interval / 2
        for _ in range(UNDER_WAY // BATCH):
            room = UNDER_WAY * times - len(self._sent)
            if self.waiting and not self._outgoing and room >= BATCH * times:
                self._send_batch(BATCH if times == 1 else room, late=late)  # enlarged: all in one write
        if times > 1:
            self.ready(self._keeper.clock())  # replies came while others had the GIL: this saves a poll
        if self._sent:
            return self._limits.end
        return now if self.waiting else float("inf")

    def _is_missed(self, now: float) -> bool:
        """The connection failed, and leases are kept here: connect again, to ask about them at once. If thousands are
        kept elsewhere, the look takes long: other servers' leases must not wait for one in every turn."""
        if not self._broken or self._link is not None or self._connecting:
            self._look_at = float("inf")
            return False
        if now < self._looked + LOOK_AGAIN:
            return False
        self._looked, self._look_at = now, now + LOOK_AGAIN
        return self._keeper.holds(self.place)

    def _send_batch(self, size: int, *, late: bool) -> None:
        for _ in range(TRIES):
            taken = [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]
            batch, patience, rest = requests_of(
                taken, self._keeper.clock, late=late, hindered_at=self.hindered_at, stumbled=self._stumbled
            )
            self.waiting.extendleft(reversed(rest))
            if self.with_bodies:
                batch = [self._with_body(*each) for each in batch]
            if batch:
                self._ask(batch, patience, batch[0][1])
                return
            size = max(BATCH, size // SMALLER)

    def _with_body(self, charge: "Charge", now: float, request: bytes) -> "Sent":
        if charge not in self.with_bodies:
            return charge, now, request
        self.with_bodies.discard(charge)
        return charge, now, with_script_body(request)

    def _ask(self, batch: "list[Sent]", patience: float, now: float) -> None:
        self._sent += batch
        limit = self._limits.begin(len(batch), max(SHORTEST_SILENCE, patience))
        self._outgoing += b"".join([request for _, _, request in batch])
        self._flush(now)
        # Read the clock again: other threads may have had the GIL while the batch was sent.
        limit[1] = self._keeper.clock() + limit[2]

    def _flush(self, now: float) -> None:
        assert self._link is not None
        try:
            self._outgoing = self._link.push_out(self._outgoing)
        except LinkDown as down:
            self._fail(down.cause, now)
            return
        if self.place.in_process:
            self.ready(now)
        elif self._writing is not bool(self._outgoing):
            self._writing = bool(self._outgoing)
            self._keeper.register(self.fd, writing=self._writing)

    def ready(self, now: float) -> None:
        """Called when the connection can be read or written."""
        if self._link is None:
            return
        if self._outgoing:
            self._flush(now)
        try:
            replies = self._pump()
        except (LinkDown, hiredis.ProtocolError) as down:
            self._fail(str(down), now)
            return
        unknown_scripts: list[Sent] = []
        answered, deserted = 0, False
        for reply in replies:
            if reply.__class__ is _Push:
                if reply[0] == b"message" and reply[2][:1] == b"k":
                    self._hurry(reply[2][1:])
                # No waiter listens on the keeper's connection: bells are ignored.
                if reply[0] != b"subscribe" or not self._sent or not isinstance(self._sent[0][0], AlarmRequest):
                    continue
            if not self._sent:
                self._fail(TOO_MANY_REPLIES, now)
                return
            charge, sent, request = self._sent.popleft()
            answered += 1
            if reply.__class__ is not int and isinstance(reply, _Error):
                if (again := with_missing_script(request, reply)) is not None:
                    unknown_scripts.append((charge, now, again))
                    continue
                deserted = self.place.doubt(str(reply)) or deserted
                elsewhere = self.place.redirected(charge, str(reply)) if charge.alive else None
                if elsewhere is not None:
                    place, before = elsewhere
                    self._keeper.redirect(charge, place, RecordRequest(place, before) if before else None, now)
                    continue
            try:
                well = charge.answered(reply, sent)
            except Exception as error:
                self._stumbled(charge, error, now)
            else:
                if well is None and self._barrier is not None:
                    self._barrier.join(charge, sent)
                else:
                    self._keeper.settled(charge, well=well, sent=sent, now=now)
        if answered:
            self._failures = 0
            self._heard = self._keeper.clock()
            self._limits.answered(answered, self._heard)
        if unknown_scripts:
            self._ask(unknown_scripts, SILENCE, now)
        if deserted:
            self._fail("it is the master no more", now)

    def _pump(self) -> list[Any]:
        return [] if self._link is None else self._link.pump()

    def _fail(self, cause: str, now: float) -> None:
        """Closes the connection: every request in flight on it is Unknown."""
        under_way = [charge for charge, _, _ in self._sent] + [charge for charge, _ in self.waiting]
        self._close()
        self._sent.clear()
        self._limits.clear()
        self.waiting.clear()
        self.with_bodies.clear()
        self._outgoing = b""
        self._broken, self._looked = True, float("-inf")
        if self._barrier is not None:
            self._barrier.break_off()
        self.place.broken()
        self._failures += 1
        self._connect_at = now + (0.0 if self._failures == 1 else _RECONNECT.pause(self._failures - 1))
        for charge in under_way:
            if not charge.alive:
                continue
            try:
                charge.unanswered(cause)
            except Exception as error:
                self._stumbled(charge, error, now)
            else:
                self._keeper.settled(charge, well=False, sent=now, now=now)

    def _stumbled(self, charge: "Charge", error: Exception, now: float) -> None:
        """A charge raised: it is tried again until its deadline, and the others are not affected."""
        report("a charge of the keeper's failed: %r", error, charge)
        self._keeper.settled(charge, well=False, sent=now, now=now)

    def _connect(self) -> None:
        if self.place.in_process:
            self._link = self.place.open(CONNECT_SECONDS)
            self._heed(self._link)
            return
        self._connecting = True

        def connect() -> None:
            link: Link | None = None
            cause = ""
            try:
                link = self.place.open(CONNECT_SECONDS)
                link.stop_blocking()
            except (LinkDown, ServerSaid, OSError) as error:
                cause = quotable(error)
            except Exception as error:  # credentials come from user code
                cause = f"{type(error).__name__}: {error}"
            self._keeper.run_soon(lambda: self._connected(link, cause))

        try:
            start_thread(connect, "holdtight-connect")
        except RuntimeError as error:
            self._connecting = False
            self._fail(f"{NO_THREAD}: {error}", self._keeper.clock())

    def _connected(self, link: Link | None, cause: str) -> None:
        self._connecting = False
        if link is None:
            self._fail(cause, self._keeper.clock())
        elif self._retired:
            link.close()
        else:
            self._link = link
            self.hindered_at = self._keeper.clock()
            self._writing = False
            self.place.keeps(link)
            self._keeper.register(self.fd, writing=False)
            self._heed(link)
            if self._broken:
                self._broken = False
                self._keeper.hurry(self.place)

    # The alarm, which rings when an operator has released one of the client's grants by force.

    def _heed(self, link: Link) -> None:
        client, me = self.place.client, weakref.ref(self)
        if not link.inbox or not client.known:
            return

        def hear(message: bytes) -> None:
            connection = me()
            if connection is not None:
                connection._keeper.run_soon(lambda: connection._hurry(message[1:]))

        request = link.heed(alarm(client.namespace, client.id), hear)
        if request:
            self.enqueue_first(AlarmRequest(self.place, request), self._keeper.clock())

    def _hurry(self, owner: Owner) -> None:
        """Renews this owner's grant at once: the answer says that it is lost."""
        for charge in list(self._keeper.charges(self.place)):
            if getattr(charge, "owner", None) == owner:
                self._keeper.drop(charge)
                self._keeper.ask(charge)

    # The end.

    def retire(self) -> None:
        self._retired = True
        if self._barrier is not None:
            self._keeper.forget(self._barrier.beside)
        client = self.place.client
        recorded, idle = self._recorded, not client.detached
        if client.sharded:  # the connections to all servers have it written, at the one that has its slot
            recorded, idle = self.place.record_place is self.place, self.place.record_is_idle
        if self._link is not None and recorded and idle:
            if not client.sharded:
                client.recorded_until = 0.0
            try:
                self._link.push_out(removal_request(self.place.client))
            except LinkDown:
                pass
        self._close()

    def abandon(self) -> None:
        """Drops the connection in a forked child without sending anything."""
        if self._link is not None:
            self._link.abandon()

    def _close(self) -> None:
        if self._link is not None:
            if not self.place.in_process:
                self._keeper.unregister(self.fd)
            self._link.close()
            self._link = None
