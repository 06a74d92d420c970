"""A gate between a client and its server, behind which many tasks run in step: see bench/instructions.py.

While a control connection is open, a connection of the client passes its requests on only when it has sent one script
call for each task, and gets their replies in one piece. What is no script call passes at once.
"""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Any

import hiredis

_CALL = b"\r\nEVALSHA\r\n"


class _Way:
    """One connection of the client, and the one to the server behind it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.asked = b""
        self.answered = b""
        self.owed = 0
        self.reader = hiredis.Reader()


class Gate:
    def __init__(self, port: int, tasks: int) -> None:
        self._port, self._tasks = port, tasks
        self._selector = selectors.DefaultSelector()
        self._front = socket.create_server(("127.0.0.1", 0))
        self._control = socket.create_server(("127.0.0.1", 0))
        self._stop, self._stopped = socket.socketpair()
        self._held: socket.socket | None = None
        for each in (self._front, self._control, self._stopped):
            self._selector.register(each, selectors.EVENT_READ, each)
        self._ways: list[_Way] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._front.getsockname()[1]}"

    @property
    def control(self) -> tuple[str, int]:
        return ("127.0.0.1", self._control.getsockname()[1])

    def __enter__(self) -> Gate:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.send(b"!")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._stop.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                found: Any = key.data
                if found is self._stopped:
                    return
                if found is self._front:
                    self._begin()
                elif found is self._control:
                    self._held, _ = self._control.accept()
                    self._selector.register(self._held, selectors.EVENT_READ, self._held)
                    self._held.send(b"!")  # from now on
                elif self._held is not None and found is self._held:
                    self._close(self._held)
                    self._held = None
                    for way in self._ways:
                        self._pass_on(way)
                else:
                    self._pump(found, key.fileobj)

    def _begin(self) -> None:
        client, _ = self._front.accept()
        way = _Way(client, socket.create_connection(("127.0.0.1", self._port)))
        self._ways.append(way)
        for end in (way.client, way.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end, selectors.EVENT_READ, way)

    def _close(self, end: socket.socket) -> None:
        self._selector.unregister(end)
        end.close()

    def _pump(self, way: _Way, end: Any) -> None:
        if end.fileno() < 0:
            return  # closed a moment ago
        try:
            data = end.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self._ways.remove(way)
            self._close(way.client)
            self._close(way.server)
        elif end is way.client:
            way.asked += data
            self._pass_on(way)
        else:
            way.answered += data
            if way.owed:
                way.reader.feed(data)
                while way.reader.gets() is not False:
                    way.owed -= 1
            if not way.owed:
                way.client.sendall(way.answered)
                way.answered = b""

    def _pass_on(self, way: _Way) -> None:
        calls = way.asked.count(_CALL) if self._held is not None else 0
        if calls in (0, self._tasks):
            way.owed += calls
            way.server.sendall(way.asked)
            way.asked = b""
