"""The blocking, pollable connection: sync callers block on it, the keeper polls it.

A plain socket is in blocking mode and has its deadline in the kernel (SO_RCVTIMEO). Each direction then takes one
system call, without a poll before every read. os.read and os.write on the descriptor cost Python less than the
socket's methods. TLS permits neither and uses Python's timeouts.

Invariants:
- one thread at a time uses the link;
- `fd` is -1 as soon as the socket is closed: the operating system may reuse the number;
- `_unread` is true unless the parser is known to be empty. If it is empty, the two usual replies need no parser;
- `owed` counts requests whose replies have not been read. A link with unread replies is never shared, since the
  next reader would take another request's reply for its own. It is drained or closed;
- messages (bells) that arrive before a reply are older than the reply and dropped with it, unless a queued waiter
  made the request with `call_aside`: then they are `_kept` for the next park.
"""

import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import hiredis

from holdtight.base.clock import boottime
from holdtight.base.plan import CLOSED_BY_SERVER, SLOT_GONE, Bell, LinkDown
from holdtight.base.process import abandon_descriptor, tell_of_fork
from holdtight.base.values import OWNER_SIZE, Owner
from holdtight.stores.redis.failures import broken, cause_of, closed_by_server, is_silence, is_tls_wait
from holdtight.stores.redis.handshake import Handshake
from holdtight.stores.redis.resp import bulk, command
from holdtight.stores.redis.second_reply import NOTHING, PIECE, SecondReply
from holdtight.stores.redis.spin import LinkSpinWait, SpinWait

__all__ = ["MUCH", "NOTHING", "Bare", "SocketLink", "bell_for", "bell_in"]

_Error = hiredis.ReplyError
_Push = hiredis.PushNotification
SHORTEST_TIMEOUT = 0.001
_LONG = 8192
MUCH = 65536
"""The most that one read takes. A larger buffer would be allocated from the system each time."""
_ONE = b":1\r\n"
_TEXT_OF_16, _ITS_SIZE = b"$16\r\n", 23
"""A fence, as a reply."""


def bell_for(push: Any) -> tuple[Owner, Bell] | None:
    """Returns the owner that a message is for, and its bell. Raises LinkDown if the server of a cluster says that a
    slot has left it: no bell for the names of that slot comes here any more."""
    if len(push) != 3:
        return None
    if push[0] != b"message" and push[0] != b"smessage":
        if push[0] == b"sunsubscribe":
            raise LinkDown(SLOT_GONE, sent=False)
        return None
    return bell_in(push[2])


def bell_in(payload: bytes) -> tuple[Owner, Bell]:
    owner = payload[1 : 1 + OWNER_SIZE]
    if payload[:1] == b"n":
        return owner, Bell(int(payload[1 + OWNER_SIZE :]) / 1000)
    return owner, Bell()


class Bare(NamedTuple):
    """Functions to write to and read from a link's `fd`, and its parser, which returns NOTHING when it is empty."""

    write: Callable[[int, bytes], int]
    read: Callable[[int, int], bytes]
    feed: Callable[[bytes], object]
    gets: Callable[[], Any]


class SocketLink(SecondReply):
    """One connection after its handshake."""

    __slots__ = (
        "__weakref__",
        "_bare",
        "_feed",
        "_gets",
        "_has_data",
        "_kept",
        "_read",
        "_send_timeout",
        "_timeout",
        "_write",
        "fd",
        "handshake",
        "inbox",
        "inbox_word",
        "second_spin_wait",
        "sock",
        "spin_wait",
    )

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        reader = hiredis.Reader(notEnoughData=NOTHING)
        self._feed = reader.feed
        self._gets = reader.gets
        self._has_data = reader.has_data
        self._write: Callable[[int, bytes], int] = os.write
        self._read: Callable[[int, int], bytes] = os.read
        if _is_tls(sock):
            self._write = lambda _, data: sock.send(data)
            self._read = lambda _, size: sock.recv(size)
        self._bare: list[Any] = [self._write, self._read]
        """Used by `call`. The spin wait may replace the second one."""
        self._unread = True
        self._timeout = -1.0
        self._send_timeout = float("inf")
        self._kept: list[Any] = []
        self.spin_wait: LinkSpinWait | None = None
        self.second_spin_wait: SpinWait | None = None
        """For the second reply of `call_twice`, which takes longer: the replicas give it."""
        self.owed = 0
        self.handshake = Handshake(2, b"")
        self.inbox = b""
        self.inbox_word = bulk(b"")
        tell_of_fork(self)  # every link: while a thread uses a link, no pool knows it

    def look_out(self) -> None:
        """From now on `call` spins for a moment before it blocks, where that pays. A further call may end a rest of the
        spin wait, which then measures again."""
        if self.spin_wait is not None:
            self.spin_wait.again()
            if self.second_spin_wait is not None:
                self.second_spin_wait.again()
        elif not _is_tls(self.sock):  # TLS sockets do not support MSG_DONTWAIT
            self.spin_wait = LinkSpinWait(self._bare, self.sock.recv)
            self.second_spin_wait = SpinWait((1, 8))

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
                # Keep the shortest timeout so far: a single small request never blocks in send.
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)
                self._send_timeout = timeout
        self._timeout = timeout

    def send(self, request: bytes) -> None:
        self.owed += 1
        try:
            self.sock.sendall(request)
        except OSError as error:
            raise broken(error) from error

    def reply(self, *, keep: bool = False) -> Any:
        """Reads the next reply. Error replies are returned as values."""
        gets = self._gets
        until = boottime() + self._timeout
        try:
            reply = gets()
            while reply is NOTHING or reply.__class__ is _Push:
                if reply is NOTHING:
                    left = until - boottime()
                    if left <= 0:
                        raise TimeoutError  # the kernel's timeout restarts with each read: bells must not extend it
                    self.set_timeout(left)
                    data = self._read(self.fd, _LONG)
                    if not data:
                        raise closed_by_server()
                    self._feed(data)
                elif keep:
                    self._kept.append(reply)
                reply = gets()
        except (OSError, hiredis.ProtocolError) as error:
            raise broken(error) from error
        self.owed -= 1
        self._unread = self._has_data()
        return reply

    def call_aside(self, request: bytes, timeout: float) -> Any:
        """One round trip for a queued waiter that asks about something else; bells are kept."""
        self.set_timeout(timeout)
        self.send(request)
        return self.reply(keep=True)

    def call(self, request: bytes, timeout: float) -> Any:
        """One round trip on a link without unread replies: almost always one write and one read.

        A kernel timeout somewhat shorter than `timeout` stays, which saves a system call; if it expires, a second read
        waits for the rest of the time."""
        if timeout != self._timeout and not timeout / 4 <= self._timeout <= timeout:
            self.set_timeout(timeout)
        write, read = self._bare
        fd = self.fd
        self.owed = 1
        try:
            sent = write(fd, request)
            if sent != len(request):
                self.sock.sendall(request[sent:])
        except OSError as error:
            raise broken(error) from error
        try:
            data = read(fd, PIECE)
            if not self._unread:
                if data == _ONE:
                    self.owed = 0
                    return 1
                if len(data) == _ITS_SIZE and data[:5] == _TEXT_OF_16:
                    self.owed = 0
                    return data[5:21]
            if not data:
                raise closed_by_server()
            self._unread = True
            self._feed(data)
            reply = self._gets()
        except (OSError, hiredis.ProtocolError) as error:
            if self._timeout < timeout and isinstance(error, OSError) and is_silence(error):
                self.set_timeout(timeout - self._timeout)
                return self.reply()
            raise broken(error) from error
        if reply is NOTHING or type(reply) is _Push:
            self.set_timeout(timeout)
            return self.reply()
        self.owed = 0
        self._unread = self._has_data()
        return reply

    def call_all(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """One round trip for all requests, on a link without unread replies: as with `call`, almost always one write
        and one read. The timeout is that of each reply."""
        request, replies = b"".join(requests), len(requests)
        if timeout != self._timeout and not timeout / 4 <= self._timeout <= timeout:
            self.set_timeout(timeout)
        write, read = self._bare
        fd, gets = self.fd, self._gets
        self.owed = replies
        found: list[Any] = []
        try:
            sent = write(fd, request)
            if sent != len(request):
                self.sock.sendall(request[sent:])
            try:
                data = read(fd, _LONG)
            except OSError as error:
                if not is_silence(error) or self._timeout >= timeout:
                    raise
                self.set_timeout(timeout - self._timeout)
                return [self.reply() for _ in range(replies)]
            if not data:
                raise closed_by_server()
            self._unread = True
            self._feed(data)
            while len(found) < replies:
                reply = gets()
                if reply is NOTHING:
                    self.set_timeout(timeout)
                    found.append(self.reply())
                elif type(reply) is not _Push:
                    self.owed -= 1
                    found.append(reply)
        except (OSError, hiredis.ProtocolError) as error:
            raise broken(error) from error
        self._unread = self._has_data()
        return found

    def park(self, owner: Owner, until: float) -> Bell | None:
        """Blocks until a bell for this owner, or until the time has come. If it has come, reads what is there."""
        first = True
        while True:
            item = self._kept.pop(0) if self._kept else self._gets()
            if item is not NOTHING:
                rung = bell_for(item) if item.__class__ is _Push else None
                if rung is not None and rung[0] == owner:
                    return rung[1]
                continue
            left = until - boottime()
            if left <= 0 and not (first and self._has_arrived()):
                return None
            if not first or self._timeout > left:  # the last timeout often serves, which saves two system calls
                self.set_timeout(min(left, 3600.0))
            first = False
            try:
                data = self._read(self.fd, PIECE)
            except OSError as error:
                if is_silence(error):
                    continue
                raise LinkDown(cause_of(error), sent=False) from error
            if not data:
                raise LinkDown(CLOSED_BY_SERVER, sent=False)
            self._unread = True
            self._feed(data)

    def _has_arrived(self) -> bool:
        """Whether a read would return at once."""
        if self.fd < 0:
            return False
        if _is_tls(self.sock) and self.sock.pending():  # type: ignore[attr-defined]
            return True
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        return bool(poller.poll(0))

    def wake(self) -> None:
        """Called by another thread: a `park` that blocks, or is about to, reads the end of the stream."""
        with suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RD)  # not the TLS method, which is not thread-safe

    # Non-blocking use, for the keeper and asyncio.

    def bare(self) -> "Bare | None":
        """For callers with their own send and read loop; None with TLS, whose layer buffers what it has read."""
        return None if _is_tls(self.sock) else Bare(self._write, self._read, self._feed, self._gets)

    def stop_blocking(self) -> None:
        self.sock.setblocking(False)

    def heed(self, channel: bytes, hear: Callable[[bytes], object]) -> bytes:
        """The request to listen to another channel; its messages come with the replies."""
        return command("SUBSCRIBE", channel)

    def push_out(self, data: bytes) -> bytes:
        """Sends as much as possible without blocking; returns the rest."""
        try:
            sent = self._write(self.fd, data)
            return b"" if sent == len(data) else data[sent:]
        except OSError as error:
            if is_silence(error) or is_tls_wait(error):
                return data
            raise LinkDown(cause_of(error), sent=True) from error

    def pump(self) -> list[Any]:
        """Returns everything that has arrived, bells included, without blocking."""
        while True:
            try:
                data = self._read(self.fd, MUCH)
            except OSError as error:
                if is_silence(error) or is_tls_wait(error):
                    break
                raise LinkDown(cause_of(error), sent=True) from error
            if not data:
                raise closed_by_server()
            self._feed(data)
            if not _is_tls(self.sock):
                break  # poll reports further data; a TLS layer may have buffered it, unseen by poll
        return self._items()

    def next_items(self) -> list[Any]:
        """Reads once and returns all complete items, bells included."""
        data = self._read(self.fd, _LONG)
        if not data:
            raise closed_by_server()
        self._feed(data)
        return self._items()

    def _items(self) -> list[Any]:
        """Returns all complete items in the parser."""
        self._unread = True
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
        self.fd = -1
        with suppress(OSError):
            self.sock.close()

    def abandon(self) -> None:
        """In a forked child: drops the connection without sending anything."""
        self.fd = -1
        abandon_descriptor(self.sock.fileno())

    def after_fork(self) -> None:
        if self.fd >= 0:
            self.abandon()

    def __del__(self) -> None:
        if hasattr(self, "sock"):  # an interrupt may have ended __init__ before
            self.close()


def _is_tls(sock: socket.socket) -> bool:
    return sock.__class__ is not socket.socket
