"""Just enough of the protocol to supervise a server: one plain request, one plain answer."""

import socket
from types import TracebackType
from typing import Self

Address = str | tuple[str, int]


class Refused(Exception):
    """The server answered with an error."""


class Wire:
    """One connection. After a timeout it must be closed, since a late answer would be taken for the next one."""

    def __init__(self, address: Address, timeout: float = 2.0) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(address)
            self._reader = self._socket.makefile("rb")
        except BaseException:
            self._socket.close()
            raise

    def ask(self, request: str) -> str:
        self._socket.sendall(request.encode() + b"\r\n")
        head = self._reader.readline()
        if not head.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = head[:1], head[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind != b"$":
            return rest
        body = self._reader.read(int(rest) + 2)
        if len(body) != int(rest) + 2:
            raise ConnectionResetError("the server closed the connection")
        return body[:-2].decode(errors="replace")

    def info(self, sections: str) -> dict[str, str]:
        lines = self.ask(f"INFO {sections}").splitlines()
        return {key: value for key, colon, value in (line.partition(":") for line in lines) if colon}

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listening(address: Address) -> bool:
    """True if a server listens at that address, even if it does not answer because it is busy or stopped.

    Only a refused connection counts as no server: a second server beside a slow one would grant the same lock to two
    holders.
    """
    try:
        Wire(address, timeout=0.5).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except (TimeoutError, BlockingIOError):  # its queue of connections is full
        return True
    return True
