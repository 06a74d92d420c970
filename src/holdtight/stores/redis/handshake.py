"""One server as this process knows it: how to greet it, and what time it has there.

`greet` is the conversation at connect, as a generator of (request, number of answers): the blocking link
and the asyncio connection both drive it. In one write it goes to RESP3, logs in, chooses the database and
subscribes to the connection's own inbox, so that nobody is ever queued who cannot be rung.
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
    """Who we are to the servers: an id, a record for people who look, and fresh owners.

    Every owner starts with the client's id; the record under that id says host, pid and start.
    """

    known = True
    """Has a record and an inbox. A client that is not leaves nothing on a server but what it is told to."""
    max_ttl_ms: int | None = None
    """It goes to one node of a quorum: what it asks for says how long votes may count, and to which run it goes."""
    guarded = False
    """And that run is to be learned."""

    def __init__(self, namespace: str, clock: Clock = boottime) -> None:
        self.namespace = namespace
        self.clock = clock
        self.renew_identity()

    def for_node(self, *, guarded: bool, max_ttl: float) -> "Client":
        """The same client as one node of a quorum knows it: one id everywhere, the time of each."""
        node = Client(self.namespace, self.clock)
        node.max_ttl_ms, node.guarded = round(max_ttl * 1000), guarded
        node.renew_identity(self.id)
        return node

    def renew_identity(self, client_id: bytes | None = None) -> None:
        """At birth, and in a forked child: nothing of the parent's identity is ours."""
        self.id = os.urandom(CLIENT_ID_SIZE) if client_id is None else client_id
        self.owners: deque[Owner] = deque()
        """Fresh owners in store; `owner()` refills."""
        self._inboxes = itertools.count(1)
        self.record_key = keys.client_record(self.namespace, self.id)
        self.lead: float | None = None
        """Server time less our clock, in seconds; None until a server has told."""
        self.recorded_until = 0.0
        """Until when (on our clock) our record is surely on the server."""

    def owner(self) -> Owner:
        """A fresh owner. Randomness is bought wholesale; `pop` is atomic."""
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
        """How requests name the connection that they go by."""
        return bulk(inbox) if self.max_ttl_ms is None else bulk(inbox) + bulk(passport(self.max_ttl_ms, run))

    def inbox(self) -> bytes:
        return keys.inbox(self.namespace, self.id, next(self._inboxes))

    def record(self) -> bytes:
        """The request that writes, or refreshes, our record: who looks at a lock learns host and pid from it."""
        import json  # with the first connection, not with the package

        about = {"host": socket.gethostname(), "pid": os.getpid(), "started": _STARTED}
        return command("SET", self.record_key, json.dumps(about), "EX", RECORD_SECONDS)

    def announcement_due(self) -> bool:
        """True if the record must be written again before it can be relied on; whoever asks writes it."""
        now = self.clock()
        if now <= self.recorded_until or not self.known:
            return False
        self.recorded_until = now + RECORD_SECONDS * 2 / 3
        return True

    def learn(self, server_time: float, sent: float) -> None:
        """From any reply that tells the server's time (seconds)."""
        self.lead = server_time - sent

    def learn_usual(self, lead: float) -> None:
        """The same from a reply that came as it should, of many: what took less time on its way says more. So a fence
        that is proposed is seldom ahead of a node's clock, which the next taker would have to wait for or exceed."""
        known = self.lead
        if known is None or lead < known or lead > known + MUCH_AHEAD:
            self.lead = lead
        else:
            self.lead = known + (lead - known) / 16

    def server_time(self, now: float) -> float:
        """What the server's clock shows at our `now`, a little late rather than early."""
        return now + (self.lead if self.lead is not None else time.time() - self.clock())


_STARTED = time.time()
MUCH_AHEAD = 0.5
"""Seconds by which no reply is late: the server's clock was set."""


def passport(max_ttl_ms: int, run: bytes) -> bytes:
    """What a node's stamp must end with for it to vote: see lua/lib/guard.lua. Without a run there is no guard."""
    return b"%09d%b" % (max_ttl_ms, run)


class InboxArgs:
    """How the usual requests to all nodes of a quorum name the connections that they go by.

    A node whose guard has let a vote by that very connection pass need not look at its stamp for another on top of what
    such votes have left: see lua/vote.lua. It does again once in a while, which nothing rests on that is promised.
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
        """From what came of votes with these words. Only a usual yes to one that did not say so already counts."""
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
"""So many votes in a row are looked at: a node may be among the last to answer for once."""


def _vouching(word: bytes) -> bytes:
    before, _, passport = word[:-2].rpartition(b"\r\n")
    if len(passport) <= 9:
        return word  # without a run there is no guard
    return before[: before.rindex(b"$")] + bulk(b"+" + passport)


class Session(NamedTuple):
    """What a greeting settled. An empty inbox means that waiters on this connection poll."""

    protocol: int
    inbox: bytes
    note: str | None = None
    run: bytes = b""
    """Which run of the server this is, if that was asked for."""


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
    """The run id, out of what INFO said before TIME."""
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
