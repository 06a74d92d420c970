"""The handshake with a server, and what this process knows of the server's time.

`greet` is the handshake as a generator of (request, number of answers); the blocking link and the asyncio connection
both drive it. One write switches to RESP3, logs in, selects the database and subscribes to the connection's own inbox,
so that no waiter is ever queued before it can be rung.
"""

import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import hiredis

from holdtight.base.clock import Clock, boottime
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.values import CLIENT_ID_SIZE, OWNER_SIZE, Owner
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import bulk, command

__all__ = ["Client", "Greeting", "InboxArgs", "Session", "greet", "passport"]

RECORD_SECONDS = 60
_BATCH = 128


class Client:
    """This client's identity on the servers: an id, a record for people who inspect a lock, and fresh owners.

    Every owner starts with the client's id; the record under that id has host, pid and start time.
    """

    known = True
    """True if the client has a record and an inbox. Otherwise it writes nothing to a server except its locks."""
    max_ttl_ms: int | None = None
    """Set for a node of a quorum: requests then carry this max_ttl and the run id of the server."""
    guarded = False
    """True if the handshake must also read the server's run id, for the restart guard."""

    def __init__(self, namespace: str, clock: Clock = boottime) -> None:
        self.namespace = namespace
        self.clock = clock
        self.renew_identity()

    def for_node(self, *, guarded: bool, max_ttl: float) -> "Client":
        """This client for one node of a quorum: the id is the same on all nodes, the time is that of the node."""
        node = Client(self.namespace, self.clock)
        node.max_ttl_ms, node.guarded = round(max_ttl * 1000), guarded
        node.renew_identity(self.id)
        return node

    def renew_identity(self, client_id: bytes | None = None) -> None:
        """Sets a new identity: in a new client, and in a forked child, which must not use the parent's."""
        self.id = os.urandom(CLIENT_ID_SIZE) if client_id is None else client_id
        self.owners: deque[Owner] = deque()
        """Unused owners; `owner()` refills them."""
        self._inboxes = itertools.count(1)
        self.record_key = keys.client_record(self.namespace, self.id)
        self.lead: float | None = None
        """Server time minus our clock, in seconds; None until a server has told its time."""
        self.recorded_until = 0.0
        """The time (on our clock) until which our record is certainly on the server."""

    def owner(self) -> Owner:
        """A fresh owner. Random bytes are read in batches; `pop` is atomic."""
        try:
            return self.owners.pop()
        except IndexError:
            size = OWNER_SIZE - CLIENT_ID_SIZE
            noise = os.urandom(size * _BATCH)
            fresh = [self.id + noise[at : at + size] for at in range(0, len(noise), size)]
            last = fresh.pop()
            self.owners.extend(fresh)
            return last

    def word(self, inbox: bytes, run: bytes) -> bytes:
        """The arguments that name a connection in its requests: the inbox and, for a node of a quorum, the passport."""
        return bulk(inbox) if self.max_ttl_ms is None else bulk(inbox) + bulk(passport(self.max_ttl_ms, run))

    def inbox(self) -> bytes:
        return keys.inbox(self.namespace, self.id, next(self._inboxes))

    def record(self) -> bytes:
        """The request that writes, or refreshes, our record: inspections of a lock read host and pid from it."""
        import json  # imported with the first connection, not with the package

        about = {"host": socket.gethostname(), "pid": os.getpid(), "started": _STARTED}
        return command("SET", self.record_key, json.dumps(about), "EX", RECORD_SECONDS)

    def announcement_due(self) -> bool:
        """True if the record must be written again; the caller then writes it."""
        now = self.clock()
        if now <= self.recorded_until or not self.known:
            return False
        self.recorded_until = now + RECORD_SECONDS * 2 / 3
        return True

    def learn(self, server_time: float, sent: float) -> None:
        """Learns the server's time (seconds) from any reply that has it."""
        self.lead = server_time - sent

    def learn_usual(self, lead: float) -> None:
        """Learns the lead from one of many ordinary replies; a faster reply counts for more. A proposed fence is then
        seldom ahead of a node's clock, in which case the next owner would have to wait for it or exceed it."""
        known = self.lead
        if known is None or lead < known or lead > known + MUCH_AHEAD:
            self.lead = lead
        else:
            self.lead = known + (lead - known) / 16

    def server_time(self, now: float) -> float:
        """The server's time at our `now`; rather a little late than early."""
        return now + (self.lead if self.lead is not None else time.time() - self.clock())


_STARTED = time.time()
MUCH_AHEAD = 0.5
"""No reply is this late (seconds): a lead that is so much higher means that the server's clock was set."""


def passport(max_ttl_ms: int, run: bytes) -> bytes:
    """The text that a node's stamp must end with before the node votes: see lua/lib/guard.lua. No run, no guard."""
    return b"%09d%b" % (max_ttl_ms, run)


class InboxArgs:
    """The arguments that name the connections in the usual requests to all nodes of a quorum.

    If a node's guard has passed a vote from the same connection, the node need not read its stamp again for a vote on
    top of what such votes have left: see lua/vote.lua. It reads the stamp again once in a while, but no guarantee
    depends on that.
    """

    __slots__ = ("_current", "_looks", "_plain", "_until", "_vouching")

    def __init__(self, plain: Sequence[bytes]) -> None:
        self._plain = list(plain)
        self._vouching = [_vouching(word) for word in plain]
        self._current = self._plain
        self._until = 0.0
        self._looks = 0

    def at(self, now: float) -> list[bytes]:
        if now >= self._until:
            self._until = now + VOUCHED_SECONDS
            self._looks = _LOOKS
            self._current = self._plain
        return self._current

    def learn(self, used: list[bytes], replies: Sequence[Any]) -> None:
        """Learns from replies to votes with these arguments. Only a usual yes to an argument that does not vouch yet
        counts."""
        if not self._looks:
            return
        self._looks -= 1
        self._current = [
            vouching if reply.__class__ is bytes and word is plain else now
            for reply, word, plain, vouching, now in zip(
                replies, used, self._plain, self._vouching, self._current, strict=True
            )
        ]


VOUCHED_SECONDS = 1.0
_LOOKS = 8
"""How many votes in a row are evaluated: a node may be among the last to answer once."""


def _vouching(word: bytes) -> bytes:
    before, _, passport = word[:-2].rpartition(b"\r\n")
    if len(passport) <= 9:
        return word  # without a run there is no guard
    return before[: before.rindex(b"$")] + bulk(b"+" + passport)


class Session(NamedTuple):
    """The result of a handshake. With an empty inbox, waiters on this connection poll."""

    protocol: int
    inbox: bytes
    note: str | None = None
    run: bytes = b""
    """The run id of the server, if the client is `guarded`."""


Greeting = Generator[tuple[bytes, int], list[Any], Session]


def greet(
    client: Client, *, user: str | None, password: str | None, db: int, name: str | None, protocol: int | None
) -> Greeting:
    sent = client.clock()
    login = ["AUTH", user or "default", password or ""] if user is not None or password is not None else []
    title = name or f"holdtight-{os.getpid()}-{threading.get_native_id()}"
    select = [command("SELECT", db)] if db else []
    run = [command("INFO", "server")] if client.guarded else []
    common = [client.record(), *run, command("TIME")] if client.known else [command("TIME")]
    answers: list[Any]
    if protocol != 2 and client.known:
        inbox = client.inbox()
        hello = command("HELLO", 3, *login, "SETNAME", title)
        listen = command("SUBSCRIBE", inbox)
        sent = client.clock()
        answers = yield b"".join([hello, *select, listen, *common]), 2 + len(select) + len(common)
        first = answers[0]
        if not isinstance(first, hiredis.ReplyError):
            _expect(answers[1 : 1 + len(select)])
            heard, note = answers[1 + len(select)], None
            if isinstance(heard, hiredis.ReplyError):
                inbox, note = b"", str(heard)
            _learn(client, answers[-1], sent)
            return Session(3, inbox, note, _run(client, answers))
        said = str(first)
        if not said.startswith("NOPROTO") and "unknown command" not in said.lower():
            raise ServerSaid(said)
    greeting: list[bytes] = []
    if login:
        auth = command("AUTH", *([user] if user is not None else []), password or "")
        greeting.append(auth)
    greeting += [*select, command("CLIENT", "SETNAME", title)]
    sent = client.clock()
    answers = yield b"".join([*greeting, *common]), len(greeting) + len(common)
    _expect(answers[: len(greeting) - 1])
    if client.known or not isinstance(answers[-1], hiredis.ReplyError):
        _learn(client, answers[-1], sent)
    return Session(2, b"", "the server speaks RESP2: waiters poll", _run(client, answers))


def _run(client: Client, answers: list[Any]) -> bytes:
    """The run id, from the INFO reply before that of TIME."""
    if not client.guarded:
        return b""
    _expect(answers[-2:-1])
    text = answers[-2] if isinstance(answers[-2], bytes) else str(answers[-2]).encode()
    for line in text.splitlines():
        if line.startswith(b"run_id:"):
            return bytes(line[7:].strip())
    raise LinkDown("it does not say its run id, which the restart guard needs (INFO server)", sent=False)


def _expect(answers: list[Any]) -> None:
    for answer in answers:
        if isinstance(answer, hiredis.ReplyError):
            raise ServerSaid(str(answer))


def _learn(client: Client, answer: Any, sent: float) -> None:
    if isinstance(answer, hiredis.ReplyError):
        raise ServerSaid(str(answer))
    match answer:
        case [whole, micros]:
            client.learn(int(whole) + int(micros) / 1e6, sent)
        case _:
            raise LinkDown("what answers there is not a Redis or Valkey server", sent=False)
    client.recorded_until = sent + RECORD_SECONDS * 2 / 3
