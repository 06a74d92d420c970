"""The handshake with a server.

`greet` is the handshake as a generator of (request, number of answers); the blocking link and the asyncio connection
both drive it. One write switches to RESP3, logs in, selects the database and subscribes to the connection's own inbox,
so that no waiter is ever queued before it can be rung.
"""

import os
import threading
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, cast

import hiredis

from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.stores.client import RECORD_GOOD, Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.client_records import record_request
from holdtight.stores.redis.resp import bulk, command

__all__ = ["Greeting", "Handshake", "InboxArgs", "greet", "inbox_word", "passport"]


def inbox_word(client: Client, inbox: bytes, run: bytes) -> bytes:
    """The arguments that name a connection in its requests: the inbox and, for a node of a quorum, the passport."""
    return bulk(inbox) if client.max_ttl_ms is None else bulk(inbox) + bulk(passport(client.max_ttl_ms, run))


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
            self._looks = _GUARD_LOOKS
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
_GUARD_LOOKS = 8
"""How many votes in a row are evaluated: a node may be among the last to answer once."""


def _vouching(word: bytes) -> bytes:
    before, _, passport = word[:-2].rpartition(b"\r\n")
    if len(passport) <= 9:
        return word  # without a run there is no guard
    return before[: before.rindex(b"$")] + bulk(b"+" + passport)


class Handshake(NamedTuple):
    """The result of a handshake. With an empty inbox, waiters on this connection poll."""

    protocol: int
    inbox: bytes
    note: str | None = None
    run: bytes = b""
    """The run id of the server, if the client is `guarded`."""


NOT_A_MASTER = "it is a replica, not the master"


Greeting = Generator[tuple[bytes, int], list[Any], Handshake]


def greet(
    client: Client,
    *,
    user: str | None,
    password: str | None,
    db: int,
    name: str | None,
    protocol: int | None,
    master_only: bool = False,
) -> Greeting:
    """With `master_only`, raises LinkDown for a replica, before anything is learned from it."""
    sent = client.clock()
    login = ["AUTH", user or "default", password or ""] if user is not None or password is not None else []
    title = name or f"holdtight-{os.getpid()}-{threading.get_native_id()}"
    select = [command("SELECT", db)] if db else []
    run = [command("INFO", "server")] if client.guarded else []
    record = [record_request(client)] if client.known and not client.sharded else []
    common = [*record, *run, command("TIME")]
    answers: list[Any]
    if protocol != 2 and client.known:
        inbox = keys.inbox(client.namespace, client.id, next(client.connections))
        hello = command("HELLO", 3, *login, "SETNAME", title)
        listen = [] if client.sharded else [command("SUBSCRIBE", inbox)]
        sent = client.clock()
        answers = yield b"".join([hello, *select, *listen, *common]), 1 + len(select) + len(listen) + len(common)
        first = answers[0]
        if not isinstance(first, hiredis.ReplyError):
            _expect(answers[1 : 1 + len(select)])
            if master_only and _role(first) != b"master":
                raise LinkDown(NOT_A_MASTER, sent=False)
            heard, note = answers[1 + len(select)], None
            if isinstance(heard, hiredis.ReplyError) and listen:
                inbox, note = b"", str(heard)
            _learn(client, answers[-1], sent)
            return Handshake(3, inbox, note, _run(client, answers))
        said = str(first)
        if not said.startswith("NOPROTO") and "unknown command" not in said.lower():
            raise ServerSaid(said)
    greeting: list[bytes] = []
    if login:
        auth = command("AUTH", *([user] if user is not None else []), password or "")
        greeting.append(auth)
    role = [command("ROLE")] if master_only else []
    greeting += [*select, *role, command("CLIENT", "SETNAME", title)]
    sent = client.clock()
    answers = yield b"".join([*greeting, *common]), len(greeting) + len(common)
    _expect(answers[: len(greeting) - 1])
    if master_only and answers[len(greeting) - 2][0] != b"master":
        raise LinkDown(NOT_A_MASTER, sent=False)
    if client.known or not isinstance(answers[-1], hiredis.ReplyError):
        _learn(client, answers[-1], sent)
    return Handshake(2, b"", "the server speaks RESP2: waiters poll", _run(client, answers))


def _role(hello: Any) -> Any:
    """The role in a reply to HELLO: a map."""
    return cast("dict[bytes, Any]", hello).get(b"role") if isinstance(hello, dict) else None


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
    if not client.sharded:
        client.recorded_until = sent + RECORD_GOOD
