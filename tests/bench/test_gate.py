"""Behind the gate, tasks run in step: that makes counts of their instructions steady."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from bench.gate import Gate
from bench.wire import pack
from holdtight import embedded

CALL = pack("EVALSHA", "0" * 40, 0)
REFUSAL = b"-NOSCRIPT"


def _connected(gate: Gate) -> socket.socket:
    parts = urlsplit(gate.url)
    found = socket.create_connection((parts.hostname, parts.port), timeout=10)
    found.settimeout(10)
    return found


def _ask(wire: socket.socket, request: bytes) -> bytes:
    wire.sendall(request)
    return wire.recv(65536)


def test_script_calls_pass_once_each_task_has_made_one_and_all_replies_come_at_once() -> None:
    with (
        embedded.Server() as server,
        Gate(urlsplit(server.url).port or 0, 3) as gate,
        _connected(gate) as wire,
        _connected(gate) as other,
    ):
        assert _ask(wire, CALL).count(REFUSAL) == 1, "no task is in step yet"
        with socket.create_connection(gate.control) as control:
            control.recv(1)
            for _ in range(3):
                wire.sendall(CALL)
                assert _ask(other, pack("PING")) == b"+PONG\r\n", "the keeper's requests are not held back"
                wire.sendall(CALL)
                assert _ask(wire, CALL).count(REFUSAL) == 3
            wire.sendall(CALL)
        assert wire.recv(65536).count(REFUSAL) == 1, "what was held back passes when the tasks are done"
