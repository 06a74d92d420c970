"""`holdtight serve`: one instance as a process."""

import asyncio
import json
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
import uvloop

from holdtight import metrics
from holdtight.aio.locks import AsyncLocks
from holdtight.server.gate import Standalone, is_loopback_name
from holdtight.server.http import App, Call
from holdtight.server.protocol import Protocol
from holdtight.server.service import Service
from holdtight.server.tokens import TokenFile

__all__ = ["Settings", "client", "serve"]

GRACE = 3
"""An instance ends within five seconds. Requests under way get this many of them; the rest is for places in line, and
for requests to a lock server that may not answer."""
LAST_WORDS = 0.5
LOG_EVERY = 0.05


class Settings(NamedTuple):
    url: str | None = None
    namespace: str = "ht"
    bind: str = "127.0.0.1:7379"
    tokens: str | None = None
    reuse_port: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    trust_proxy: str | None = None
    open: bool = False
    timeout: float | None = None

    def address(self) -> tuple[str, int]:
        host, _, port = self.bind.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"bind={self.bind!r} must be an address and a port, as 127.0.0.1:7379")
        return host, int(port)

    def check(self) -> None:
        """Raises ValueError with one sentence that says what to do."""
        host, _ = self.address()
        if self.tokens is None and not is_loopback_name(host):
            raise ValueError(
                f"bind={self.bind!r} can be reached by others: make tokens with holdtight token and give --tokens, or "
                "bind to 127.0.0.1"
            )
        if self.open and self.tokens is not None:
            raise ValueError("--open lets everybody on this machine do all: leave it out, or leave out --tokens")
        for each in self.trust_proxy.split(",") if self.trust_proxy is not None else ():
            try:
                if each.strip() != "*":
                    ip_network(each.strip())
            except ValueError as error:
                raise ValueError(
                    f"--trust-proxy {self.trust_proxy}: {error}. Give addresses or networks, as 10.0.0.7,10.1.0.0/16, "
                    "or * for all"
                ) from error
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("TLS needs both --tls-cert and --tls-key")
        if self.tls_cert is not None and self.tls_key is not None:
            try:  # without a terminal there is nobody to be asked for a password
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key, password="")
            except (OSError, ValueError) as error:
                said = f"--tls-cert {self.tls_cert} and --tls-key {self.tls_key} cannot be used: {error}"
                raise ValueError(f"{said}. Give a certificate and its key, as PEM without a password") from error


class _Server(uvicorn.Server):
    """Leaves signals to `serve`: uvicorn would kill this process with the signal that it received."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found)


class AccessLog:
    """A line for each request, written together with others: a write for each would cost as much as the request."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, call: Call, took: float) -> None:
        client = call.scope.get("client")
        address = _quoted(client[0]) if client else "null"
        self._lines.append(
            f'{{"at":{time.time():.3f},"level":"info","logger":"holdtight.server.access","route":"{call.route}",'
            f'"method":{_quoted(call.method)},"status":{call.sent},"ms":{took * 1000:.2f},"request":"{call.id}",'
            f'"address":{address}}}\n'
        )
        if len(self._lines) == 1:
            asyncio.get_running_loop().call_later(LOG_EVERY, self.flush)

    def flush(self) -> None:
        if self._lines:
            text = "".join(self._lines)
            self._lines = []
            sys.stderr.write(text)
            sys.stderr.flush()


@lru_cache(1024)
def _quoted(text: str) -> str:
    return json.dumps(text)


def set_up_log() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _socket(settings: Settings) -> socket.socket:
    host, port = settings.address()
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"bind={settings.bind!r}: the address {host!r} is not known here: {error}") from error
    made = socket.socket(family, kind, proto)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        made.listen(2048)
    except OSError as error:
        made.close()
        raise ValueError(f"bind={settings.bind!r} is not possible: {error.strerror}") from error
    return made


def client(settings: Settings) -> AsyncLocks:
    options: dict[str, Any] = {} if settings.timeout is None else {"connect_timeout": settings.timeout}
    return AsyncLocks(settings.url, namespace=settings.namespace, **options)


def serve(settings: Settings) -> None:
    """Runs until SIGTERM or Ctrl-C. Raises ValueError or NotSupported for settings that are not possible."""
    settings.check()
    tokens = TokenFile(Path(settings.tokens)) if settings.tokens is not None else None
    locks = client(settings)
    metrics.install(locks)
    app = App(Service(locks), Standalone(tokens, everything=settings.open, secure=settings.tls_cert is not None))
    app.log = log = AccessLog()
    set_up_log()
    listening = _socket(settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, app, locks, tokens, listening))
    finally:
        listening.close()
        log.flush()


async def _run(
    settings: Settings, app: App, locks: AsyncLocks, tokens: TokenFile | None, listening: socket.socket
) -> None:
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.trust_proxy is not None,
        forwarded_allow_ips=settings.trust_proxy,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    server = _Server(config)
    log = logging.getLogger("holdtight.server")
    loop = asyncio.get_running_loop()

    draining: set[asyncio.Task[None]] = set()

    async def drain() -> None:
        await app.service.drain()
        server.should_exit = True

    def end() -> None:
        if not draining:
            draining.add(asyncio.create_task(drain()))

    def reload() -> None:
        if tokens is None:
            return
        try:
            tokens.reload()
            log.info("read %d tokens anew", len(tokens.tokens))
        except ValueError as error:
            log.error("the old tokens stay: %s", error)

    for word in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(word, end)
    loop.add_signal_handler(signal.SIGHUP, reload)
    host, port = listening.getsockname()[:2]
    scheme = "https" if settings.tls_cert else "http"
    shown = f"[{host}]" if ":" in host else host
    log.info("serving %s at %s://%s:%d", locks.place.display, scheme, shown, port)
    try:
        await server.serve(sockets=[listening])
    finally:
        try:
            async with asyncio.timeout(LAST_WORDS):
                await app.service.history.write()
                await locks.aclose()
        except TimeoutError:
            pass
