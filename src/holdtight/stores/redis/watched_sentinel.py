"""One Sentinel, as the scout watches it: the handshake, the state of its connection, and how to read its answers."""

import os
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import hiredis

from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.stores.redis.handshake import Greeting, Handshake
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.resp import command

if TYPE_CHECKING:
    from holdtight.config.credentials import Login
    from holdtight.config.targets import Address

__all__ = ["PROMOTED", "SWITCHED", "Master", "UnknownService", "WatchedSentinel", "greet_sentinel", "read_answer"]

SWITCHED, PROMOTED = b"+switch-master", b"+promoted-slave"
_Error = hiredis.ReplyError


class Master(NamedTuple):
    host: str
    port: int
    epoch: int

    @property
    def where(self) -> tuple[str, int]:
        return self.host, self.port


def greet_sentinel(login: "Login | None", name: str | None) -> Greeting:
    """The handshake with a Sentinel. In RESP3 the connection that asks is also subscribed; in RESP2 it cannot be."""
    auth = ["AUTH", login.user or "default", login.password] if login else []
    title = name or f"holdtight-{os.getpid()}-scout"
    hello = command("HELLO", 3, *auth, "SETNAME", title)
    answers = yield hello + command("SUBSCRIBE", SWITCHED) + command("SUBSCRIBE", PROMOTED), 3
    if not isinstance(answers[0], _Error):
        if isinstance(answers[1], _Error):
            return Handshake(2, b"", str(answers[1]))
        return Handshake(3, b"")
    said = str(answers[0])
    if not said.startswith("NOPROTO") and "unknown command" not in said.lower():
        raise ServerSaid(said)
    yield command("UNSUBSCRIBE"), 1
    if login:
        given = command("AUTH", *([login.user] if login.user is not None else []), login.password)
        answers = yield given, 1
        if isinstance(answers[0], _Error):
            raise ServerSaid(str(answers[0]))
    return Handshake(2, b"")


class WatchedSentinel:
    """One Sentinel. Only the scout's thread uses it."""

    def __init__(self, address: "Address") -> None:
        self.address = address
        self.link: SocketLink | None = None
        self.connecting = False
        self.failures = 0
        self.connect_at = 0.0
        self.asked: deque[float] = deque()
        """When each question in flight was sent."""
        self.replies: list[Any] = []
        """Replies to the first question in flight: each has two."""
        self.settled = False
        """It has answered the present round, or cannot."""
        self.told: Master | None = None
        self.told_at = 0.0
        self.error: LinkDown | ServerSaid | None = None
        self.slow = False
        """The last round ended without its answer: later rounds do not wait for it until it answers again."""

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None
        self.asked.clear()
        self.replies.clear()


class UnknownService(LinkDown):
    """A Sentinel that does not monitor the service."""


def read_answer(state: Any, address: Any) -> Master | LinkDown | ServerSaid:
    """`state` is the reply to SENTINEL MASTER: a map, in RESP2 a list. `address` is that to GET-MASTER-ADDR-BY-NAME."""
    if isinstance(state, _Error) or isinstance(address, _Error) or address is None:
        said = next((str(reply) for reply in (state, address) if isinstance(reply, _Error)), "No such master")
        return UnknownService(said, sent=False) if "No such master" in said else ServerSaid(said)
    flat: Any = None if isinstance(state, dict) else state
    fields = cast("dict[bytes, bytes]", state if flat is None else dict(zip(flat[::2], flat[1::2], strict=False)))
    return Master(address[0].decode(), int(address[1]), int(fields.get(b"config-epoch", 0)))
