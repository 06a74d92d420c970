"""Opens a link to an address: connects, starts TLS and runs the handshake."""

import socket
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown
from holdtight.stores.client import Client
from holdtight.stores.redis.handshake import Session, greet, inbox_word
from holdtight.stores.redis.link import Link, unopened

if TYPE_CHECKING:
    import ssl

    from holdtight.config.targets import Address

__all__ = ["open_link"]

USUAL_TIMEOUT = 1.0
"""The timeout of requests with default settings: set once here, it need not be set again."""


def open_link(address: "Address", client: Client, timeout: float, tls: "ssl.SSLContext | None" = None) -> Link:
    """Raises LinkDown or ServerSaid if the link cannot be opened in time."""
    until = boottime() + timeout
    sock: socket.socket | None = None
    try:
        sock = _connect(address, timeout)
        if address.tls:
            context = tls or address.tls_settings.context()
            sock.settimeout(_left(until))
            sock = context.wrap_socket(sock, server_hostname=address.host)
        else:
            sock.setblocking(True)
        link = Link(sock)
        login = address.login()
        greeting = greet(
            client,
            user=login.user if login else None,
            password=login.password if login else None,
            db=address.db,
            name=address.client_name,
            protocol=address.protocol,
        )
        answers: list[Any] | None = None
        try:
            while True:
                request, count = greeting.send(answers)  # type: ignore[arg-type]
                link.set_timeout(_left(until))
                link.send(request)
                answers = _answers(link, count, until)
        except StopIteration as stop:
            session: Session = stop.value
        link.owed = 0
        link.session = session
        link.set_timeout(USUAL_TIMEOUT)
        link.inbox = session.inbox
        link.inbox_word = inbox_word(client, session.inbox, session.run)
        return link
    except OSError as error:
        if sock is not None:
            sock.close()
        raise unopened(error) from error
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, LinkDown):
            raise LinkDown(error.cause, sent=False, silent=error.silent) from error
        raise


def _answers(link: Link, count: int, until: float) -> list[Any]:
    answers: list[Any] = []
    while len(answers) < count:
        link.set_timeout(_left(until))
        answers += link.next_items()
    return answers


def _connect(address: "Address", timeout: float) -> socket.socket:
    if address.path is not None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(address.path)
        except BaseException:
            sock.close()
            raise
        return sock
    sock = socket.create_connection((address.host, address.port), timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _left(until: float) -> float:
    left = until - boottime()
    if left <= 0:
        raise LinkDown("connecting took too long", sent=False, silent=True)
    return left
