"""The place of a single server: a fixed address, or the embedded server, which is started when needed."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdtight.base import process
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.config.targets import Embedded, Single
from holdtight.errors import quotable
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client
from holdtight.stores.redis.connect import open_link
from holdtight.stores.redis.link import SocketLink

if TYPE_CHECKING:
    import ssl

    from holdtight.base.runtime import Runtime
    from holdtight.config.targets import Address, Sentinel, TlsSettings

__all__ = ["RedisPlace"]


class RedisPlace(Place):
    """A Redis or Valkey server."""

    def __init__(
        self, target: "Single | Embedded | Sentinel", client: Client, runtime: "Runtime", tls: "ssl.SSLContext | None"
    ) -> None:
        super().__init__(client, runtime, target.display())
        if isinstance(target, Embedded):
            from holdtight.embedded import binary

            binary.find_binary()  # a missing extra shows now, rather than in the first lock
        self.target = target
        self._tls = tls
        self._tls_made: dict[TlsSettings, ssl.SSLContext] = {}
        self._tls_lock = threading.RLock()  # re-entrant: a signal handler may connect while its thread has the lock
        self.kept_run = b""
        """The run id of the server on the keeper's link; only the keeper's thread uses it."""
        process.tell_of_fork(self)

    @contextmanager
    def reach(self) -> "Generator[Address]":
        """Yields the address, which is valid while the caller connects. May block."""
        if isinstance(self.target, Single):
            yield self.target.address
        else:
            assert isinstance(self.target, Embedded)
            from holdtight import embedded
            from holdtight.config.url import parse

            try:
                with embedded.connecting() as url:
                    found = parse(url)
                    assert isinstance(found, Single)
                    yield found.address
            except embedded.EmbeddedError as error:
                raise LinkDown(quotable(error), sent=False) from error

    def after_fork(self) -> None:
        self._tls_lock = threading.RLock()  # a thread of the parent may have held it

    def tls_for(self, address: "Address") -> "ssl.SSLContext | None":
        """Built once: reading certificates is slow."""
        if not address.tls:
            return None
        with self._tls_lock:
            if self._tls is not None:
                return self._tls
            made = self._tls_made.get(address.tls_settings)
            if made is None:
                made = self._tls_made[address.tls_settings] = address.tls_settings.context()
            return made

    def keeps(self, link: object) -> None:
        if isinstance(link, SocketLink):
            self.kept_run = link.handshake.run

    def open(self, timeout: float) -> SocketLink:
        try:
            link = self._open(timeout)
        except (LinkDown, ServerSaid) as error:
            self.not_made(quotable(error))
            raise
        self.made()
        return link

    def _open(self, timeout: float) -> SocketLink:
        with self.reach() as address:
            return open_link(address, self.client, timeout, self._checked_tls(address))

    def _checked_tls(self, address: "Address") -> "ssl.SSLContext | None":
        try:
            return self.tls_for(address)
        except OSError as error:
            raise LinkDown(f"TLS settings cannot be used: {error}", sent=False) from error
