"""The blocking, pollable connection: sync callers block on it, the keeper polls it.

A plain socket in blocking mode with its deadline in the kernel (SO_RCVTIMEO): no poll before every
read, one system call a direction. TLS has no such short cut and uses Python's timeouts.

# Invariants:
# - used by one thread at a time;
# - `owed` counts requests whose replies have not been read. A link that owes is never shared: the
#   next reader would take another's answer for its own. It is drained or closed.
# - messages (bells) that arrive before a reply are older than the reply and dropped with it, unless the request was
#   made aside, by somebody who stands in line: then they are `_kept` for the next park.
"""

import errno
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import hiredis

from holdtight.clock import boottime
from holdtight.plan import Bell, LinkDown
from holdtight.process import abandon_descriptor
from holdtight.redis.lookout import LinkLookout
from holdtight.redis.node import Client, Session, greet
from holdtight.redis.resp import bulk
from holdtight.values import OWNER_SIZE, Owner

if TYPE_CHECKING:
    import ssl

    from holdtight.redis.targets import Address

__all__ = ["MUCH", "NOTHING", "Bare", "Link", "bell_for", "bell_in", "open_link"]

NOTHING: Any = object()
_SILENT = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ETIMEDOUT)
_Error = hiredis.ReplyError
_Push = hiredis.PushNotification
SHORTEST_TIMEOUT = 0.001
USUAL_TIMEOUT = 1.0
"""With default settings nobody asks for another."""
_PIECE = 448
"""More than a usual reply or bell, and little enough to come from Python's own store of small pieces of memory."""
_LONG = 8192
MUCH = 65536
"""As much as is read at once. Memory for more would be asked of the system anew each time."""


def bell_for(push: Any) -> tuple[Owner, Bell] | None:
    """The owner a message is for, and what it says."""
    if len(push) != 3 or push[0] != b"message":
        return None
    return bell_in(push[2])


def bell_in(payload: bytes) -> tuple[Owner, Bell]:
    owner = payload[1 : 1 + OWNER_SIZE]
    if payload[:1] == b"n":
        return owner, Bell(int(payload[1 + OWNER_SIZE :]) / 1000)
    return owner, Bell()


class Bare(NamedTuple):
    """A socket and its parser, which gives NOTHING when it has no more."""

    send: Callable[[bytes], int]
    recv: Callable[[int], bytes]
    feed: Callable[[bytes], object]
    gets: Callable[[], Any]


class Link:
    """One connection, greeted."""

    __slots__ = (
        "_bare",
        "_feed",
        "_gets",
        "_kept",
        "_recv",
        "_send",
        "_send_timeout",
        "_timeout",
        "inbox",
        "inbox_word",
        "lookout",
        "owed",
        "session",
        "sock",
    )

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        reader = hiredis.Reader(notEnoughData=NOTHING)
        self._feed = reader.feed
        self._gets = reader.gets
        self._recv = sock.recv
        self._send = sock.send
        self._bare: list[Any] = [sock.sendall, sock.recv, reader.feed, reader.gets]
        self._timeout = -1.0
        self._send_timeout = float("inf")
        self._kept: list[Any] = []
        self.lookout: LinkLookout | None = None
        self.owed = 0
        self.session = Session(2, b"")
        self.inbox = b""
        self.inbox_word = bulk(b"")

    def look_out(self) -> None:
        """From now on `call` looks for the answer for a moment before it sleeps, where that pays. Called again, it
        finds out anew whether it does."""
        if self.lookout is not None:
            self.lookout.again()
        elif not _is_tls(self.sock):  # there is no looking at what is encrypted
            self.lookout = LinkLookout(self._bare)

    def set_timeout(self, timeout: float) -> None:
        if timeout == self._timeout:
            return
        timeout = max(timeout, SHORTEST_TIMEOUT)
        if _is_tls(self.sock):
            self.sock.settimeout(timeout)
        else:
            whole = int(timeout)
            packed = struct.pack("ll", whole, int((timeout - whole) * 1e6))
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
            if timeout < self._send_timeout:
                # The shortest that was ever asked for will do: one small request at a time always goes at once.
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)
                self._send_timeout = timeout
        self._timeout = timeout

    def send(self, request: bytes) -> None:
        self.owed += 1
        try:
            self.sock.sendall(request)
        except OSError as error:
            raise _down(error) from error

    def reply(self, *, keep: bool = False) -> Any:
        """The next reply. Error replies come back as values."""
        gets = self._gets
        until = boottime() + self._timeout
        try:
            reply = gets()
            while reply is NOTHING or reply.__class__ is _Push:
                if reply is NOTHING:
                    left = until - boottime()
                    if left <= 0:
                        raise TimeoutError  # the kernel counts from the last byte: bells must not put it off
                    self.set_timeout(left)
                    data = self._recv(_LONG)
                    if not data:
                        raise _closed()
                    self._feed(data)
                elif keep:
                    self._kept.append(reply)
                reply = gets()
        except (OSError, hiredis.ProtocolError) as error:
            raise _down(error) from error
        self.owed -= 1
        return reply

    def call_aside(self, request: bytes, timeout: float) -> Any:
        """One round trip for somebody who stands in line and asks about something else."""
        self.set_timeout(timeout)
        self.send(request)
        return self.reply(keep=True)

    def call(self, request: bytes, timeout: float) -> Any:
        """One round trip on a link that owes nothing, bare: almost always both ways go in one piece.

        A deadline that is shorter than asked for is left as it is, which saves a system call; should it pass, the rest
        of the time is waited for."""
        if timeout != self._timeout and not timeout / 4 <= self._timeout <= timeout:
            self.set_timeout(timeout)
        send_all, recv, feed, gets = self._bare
        self.owed = 1
        try:
            send_all(request)
        except OSError as error:
            raise _down(error) from error
        try:
            data = recv(_PIECE)
            if not data:
                raise _closed()
            feed(data)
            reply = gets()
        except (OSError, hiredis.ProtocolError) as error:
            if self._timeout < timeout and isinstance(error, OSError) and _is_silence(error):
                self.set_timeout(timeout - self._timeout)
                return self.reply()
            raise _down(error) from error
        if reply is NOTHING or type(reply) is _Push:
            return self.reply()
        self.owed = 0
        return reply

    def park(self, owner: Owner, until: float) -> Bell | None:
        """Blocks until a bell for this owner, or until the time has come."""
        first = True
        while True:
            item = self._kept.pop(0) if self._kept else self._gets()
            if item is not NOTHING:
                rung = bell_for(item) if item.__class__ is _Push else None
                if rung is not None and rung[0] == owner:
                    return rung[1]
                continue
            left = until - boottime()
            if left <= 0:
                return None
            if not first or self._timeout > left:  # what was asked for last will often do, and saves two system calls
                self.set_timeout(min(left, 3600.0))
            first = False
            try:
                data = self._recv(_PIECE)
            except OSError as error:
                if _is_silence(error):
                    continue
                raise LinkDown(_cause(error), sent=False) from error
            if not data:
                raise LinkDown("the server closed the connection", sent=False)
            self._feed(data)

    # What the keeper and asyncio need: the same connection, never blocking.

    def bare(self) -> "Bare | None":
        """For who sends and reads by himself; None if a layer in between holds back what it has read."""
        return None if _is_tls(self.sock) else Bare(self._send, self._recv, self._feed, self._gets)

    def stop_blocking(self) -> None:
        self.sock.setblocking(False)

    def push_out(self, data: bytes) -> bytes:
        """Sends what goes; returns what is left."""
        try:
            sent = self._send(data)
            return b"" if sent == len(data) else data[sent:]
        except OSError as error:
            if _is_silence(error) or _is_tls_wait(error):
                return data
            raise LinkDown(_cause(error), sent=True) from error

    def pump(self) -> list[Any]:
        """Everything that has arrived, bells too, without blocking."""
        while True:
            try:
                data = self._recv(MUCH)
            except OSError as error:
                if _is_silence(error) or _is_tls_wait(error):
                    break
                raise LinkDown(_cause(error), sent=True) from error
            if not data:
                raise _closed()
            self._feed(data)
            if not _is_tls(self.sock):
                break  # more will be announced; a TLS layer may hold back what it has read already
        items: list[Any] = []
        gets = self._gets
        item = gets()
        while item is not NOTHING:
            items.append(item)
            item = gets()
        return items

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        with suppress(OSError):
            self.sock.close()

    def abandon(self) -> None:
        """In a forked child: lets go without a word."""
        abandon_descriptor(self.sock.fileno())

    def __del__(self) -> None:
        self.close()


def open_link(address: "Address", client: Client, timeout: float, tls: "ssl.SSLContext | None" = None) -> Link:
    """Connects, encrypts, greets. LinkDown or ServerSaid if it cannot be done in time."""
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
        link.inbox_word = client.word(session.inbox, session.run)
        return link
    except OSError as error:
        if sock is not None:
            sock.close()
        raise LinkDown(_cause(error), sent=False, silent=_is_silence(error)) from error
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, LinkDown):
            raise LinkDown(error.cause, sent=False, silent=error.silent) from error
        raise


def _answers(link: Link, count: int, until: float) -> list[Any]:
    answers: list[Any] = []
    while len(answers) < count:
        item = link._gets()  # pyright: ignore[reportPrivateUsage]
        if item is NOTHING:
            link.set_timeout(_left(until))
            data = link.sock.recv(_LONG)
            if not data:
                raise LinkDown("the server closed the connection", sent=False)
            link._feed(data)  # pyright: ignore[reportPrivateUsage]
        else:
            answers.append(item)
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


def _is_tls(sock: socket.socket) -> bool:
    return sock.__class__ is not socket.socket


def _is_silence(error: OSError) -> bool:
    return isinstance(error, (BlockingIOError, TimeoutError)) or error.errno in _SILENT


def _is_tls_wait(error: OSError) -> bool:
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def _cause(error: OSError) -> str:
    if _is_silence(error):
        return "it did not answer in time"
    return error.strerror or str(error) or type(error).__name__


def _down(error: OSError | hiredis.ProtocolError) -> LinkDown:
    """A broken connection may have died while it lay idle, and a new one may work; a silent one is silent."""
    if isinstance(error, OSError):
        silent = _is_silence(error)
        return LinkDown(_cause(error), sent=True, stale=not silent, silent=silent)
    return LinkDown(f"what answers is not a Redis or Valkey server ({error})", sent=True)


def _closed() -> LinkDown:
    return LinkDown("the server closed the connection", sent=True, stale=True)
