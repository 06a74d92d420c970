"""The part of the server's protocol that the coordinator needs: commands, INFO, MONITOR.

The coordinator measures; it must not depend on any client that it measures.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection

_MONITORED = re.compile(rb"^\+?[\d.]+ \[\d+ ([^\]]+)\] \"([^\"]+)\"")


def pack(*parts: str | int | bytes) -> bytes:
    """One request, ready to be sent."""
    out = [b"*%d\r\n" % len(parts)]
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        out.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(out)


class ServerSaysNo(RuntimeError):
    """The server answered with an error."""


class Connection:
    """A blocking connection for single-line and bulk replies."""

    def __init__(self, port: int, timeout: float = 10.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._file = self._socket.makefile("rb")

    def ask(self, *parts: str | int | bytes) -> str:
        self._socket.sendall(pack(*parts))
        head = self._file.readline()
        kind, rest = head[:1], head[1:-2]
        if kind == b"$":
            return self._file.read(int(rest) + 2)[:-2].decode() if rest != b"-1" else ""
        if kind == b"-":
            raise ServerSaysNo(rest.decode())
        if kind in b"+:" and head:
            return rest.decode()
        raise ConnectionError(f"unexpected reply {head!r}")

    def info(self, section: str) -> dict[str, str]:
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def used_memory(self) -> int:
        return int(self.info("memory")["used_memory"])

    def scripts(self) -> tuple[int, int]:
        """How many scripts clients have called since CONFIG RESETSTAT, and how many µs they took."""
        calls = usec = 0
        for key, value in self.info("commandstats").items():
            if key in ("cmdstat_evalsha", "cmdstat_eval"):
                stats = dict(pair.split("=") for pair in value.split(","))
                calls += int(stats["calls"])
                usec += int(stats["usec"])
        return calls, usec

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def count_requests(log: bytes, leave_out: Collection[bytes] = ()) -> Counter[str]:
    """What clients sent, by command, from the text of MONITOR; without calls inside scripts, and without the
    connections from the addresses to leave out."""
    seen: Counter[str] = Counter()
    for line in log.split(b"\r\n"):
        found = _MONITORED.match(line)
        if found and found[1] != b"lua" and found[1] not in leave_out:
            seen[found[2].decode().lower()] += 1
    return seen


class Monitor:
    """Records MONITOR raw, to be counted after the round: reading must not slow the round down."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._socket.sendall(pack("MONITOR"))
        self._chunks = [self._socket.recv(5)]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        self._socket.settimeout(0.2)
        while True:
            try:
                chunk = self._socket.recv(1 << 20)
            except TimeoutError:
                continue
            except OSError:
                return
            if not chunk:
                return
            self._chunks.append(chunk)

    def cut(self) -> int:
        """A mark in the record: how many chunks have come so far."""
        return len(self._chunks)

    def between(self, start: int, end: int) -> bytes:
        return b"".join(self._chunks[start:end])

    def until(self, start: int, text: bytes, seconds: float = 10.0) -> bytes:
        """The record from a mark on, as soon as it has this text."""
        deadline = time.monotonic() + seconds
        while text not in (found := self.between(start, self.cut())):
            if time.monotonic() > deadline:
                raise TimeoutError(f"MONITOR does not show {text.decode()}")
            time.sleep(0.01)
        return found

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2)
        self._socket.close()
