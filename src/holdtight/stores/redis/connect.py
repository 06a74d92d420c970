"""Opens a link to an address: connects, starts TLS and runs the handshake."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.clock import boottime
from holdtight.base.plan import REPLACED, SLOW_TO_CONNECT, LinkDown
from holdtight.stores.client import Client
from holdtight.stores.redis.failures import broken, unopened
from holdtight.stores.redis.handshake import Greeting, Handshake, greet, inbox_word
from holdtight.stores.redis.link import SocketLink

if TYPE_CHECKING:
    import ssl

    from holdtight.config.credentials import Login
    from holdtight.config.targets import Address

__all__ = ["Dialling", "greeted", "open_link"]

USUAL_TIMEOUT = 1.0
"""The timeout of requests with default settings: set once here, it need not be set again."""


class Dialling:
    """A connection that is being made: the socket so far. Another thread may end the attempt."""

    def __init__(self) -> None:
        self._sock: socket.socket | None = None
        self._ended = False
        self._guard = threading.Lock()  # held while closing: the number of a closed socket may be in use again

    def goes_on_with(self, sock: socket.socket) -> socket.socket:
        with self._guard:
            self._sock = sock
            if self._ended:
                raise LinkDown(REPLACED, sent=False)
        return sock

    def end(self) -> None:
        with self._guard:
            self._ended = True
            if self._sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        with self._guard:
            if self._sock is not None:
                self._sock.close()

    def made(self) -> None:
        """The link looks after the socket from now on."""
        with self._guard:
            self._sock = None


def open_link(
    address: "Address",
    client: Client,
    timeout: float,
    tls: "ssl.SSLContext | None" = None,
    *,
    dialling: Dialling | None = None,
    link_type: Callable[[socket.socket], SocketLink] = SocketLink,
    master_only: bool = False,
) -> SocketLink:
    """Raises LinkDown or ServerSaid if the link cannot be opened in time, with `master_only` also for a replica."""

    def greeting(login: "Login | None") -> Greeting:
        return greet(
            client,
            user=login.user if login else None,
            password=login.password if login else None,
            db=address.db,
            name=address.client_name,
            protocol=address.protocol,
            master_only=master_only,
        )

    link = greeted(address, greeting, timeout, tls, dialling=dialling, link_type=link_type)
    link.inbox = link.handshake.inbox
    link.inbox_word = inbox_word(client, link.handshake.inbox, link.handshake.run)
    return link


def greeted(
    address: "Address",
    greeting_for: "Callable[[Login | None], Greeting]",
    timeout: float,
    tls: "ssl.SSLContext | None",
    *,
    dialling: Dialling | None = None,
    link_type: Callable[[socket.socket], SocketLink] = SocketLink,
) -> SocketLink:
    """A link after the handshake that `greeting_for` makes."""
    until = boottime() + timeout
    dialling = dialling or Dialling()
    try:
        sock = _connect(address, until, dialling)
        if address.tls:
            context = tls or address.tls_settings.context()
            sock.settimeout(_left(until))
            wrapped = context.wrap_socket(sock, server_hostname=address.host, do_handshake_on_connect=False)
            dialling.goes_on_with(wrapped)
            wrapped.do_handshake()
            sock = wrapped
        else:
            sock.setblocking(True)
        link = link_type(sock)
        greeting = greeting_for(address.login())
        answers: list[Any] | None = None
        try:
            while True:
                request, count = greeting.send(answers)  # type: ignore[arg-type]
                link.set_timeout(_left(until))
                link.send(request)
                answers = _answers(link, count, until)
        except StopIteration as stop:
            handshake: Handshake = stop.value
        link.owed = 0
        link.handshake = handshake
        link.set_timeout(USUAL_TIMEOUT)
        dialling.made()
        return link
    except OSError as error:
        dialling.close()
        raise unopened(error) from error
    except BaseException as error:
        dialling.close()
        if isinstance(error, hiredis.ProtocolError):
            raise LinkDown(broken(error).cause, sent=False) from error
        if isinstance(error, LinkDown):
            raise LinkDown(error.cause, sent=False, silent=error.silent) from error
        raise


def _answers(link: SocketLink, count: int, until: float) -> list[Any]:
    answers: list[Any] = []
    while len(answers) < count:
        link.set_timeout(_left(until))
        answers += link.next_items()
    return answers


def _connect(address: "Address", until: float, dialling: Dialling) -> socket.socket:
    if address.path is not None:
        sock = dialling.goes_on_with(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        sock.settimeout(_left(until))
        sock.connect(address.path)
        return sock
    # As bytes: getaddrinfo would load the codec for international names even for a plain one, which takes 5 ms.
    host = address.host.encode() if address.host.isascii() else address.host
    failure: OSError | None = None
    try:
        for family, kind, protocol, _, found in socket.getaddrinfo(host, address.port, 0, socket.SOCK_STREAM):
            sock = dialling.goes_on_with(socket.socket(family, kind, protocol))
            try:
                sock.settimeout(_left(until))
                sock.connect(found)
            except OSError as error:
                dialling.close()
                failure = error
                continue
            dialling.goes_on_with(sock)  # it may have been ended before there was a connection to shut down
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock
        raise failure or OSError("its name has no address")
    finally:
        del failure  # it refers to this frame


def _left(until: float) -> float:
    left = until - boottime()
    if left <= 0:
        raise LinkDown(SLOW_TO_CONNECT, sent=False, silent=True)
    return left
