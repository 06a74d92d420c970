"""The place of a master that Sentinel names: a server whose address changes.

Locks, plans and connections are those of a single server. This place asks the Sentinels before every connect, connects
to nothing but a master, and leaves a server as soon as a Sentinel names another one: an old master that lives goes on
taking writes for about ten seconds after a failover, without any error (decision 0016).
"""

import threading
import weakref
from typing import TYPE_CHECKING

from holdtight.base.clock import boottime
from holdtight.base.plan import REPLACED, LinkDown
from holdtight.stores.client import Client
from holdtight.stores.redis.connect import Dialling, greeted, open_link
from holdtight.stores.redis.followed_link import FollowedLink
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.scout import Scout
from holdtight.stores.redis.single import RedisPlace
from holdtight.stores.redis.watched_sentinel import Master, greet_sentinel

if TYPE_CHECKING:
    import ssl

    from holdtight.base.runtime import Runtime
    from holdtight.config.targets import Address, Sentinel
    from holdtight.stores.redis.surroundings import LookAround

__all__ = ["SentinelPlace"]

SHORTEST_TRY = 0.001


class SentinelPlace(RedisPlace):
    def __init__(self, target: "Sentinel", client: Client, runtime: "Runtime", tls: "ssl.SSLContext | None") -> None:
        super().__init__(target, client, runtime, tls)
        self._sentinel = target
        self._begin()
        self._scout = Scout(target, self._open_to_sentinel, self._left_for, self._nudge, self._in_use)

    def _begin(self) -> None:
        self._links: weakref.WeakKeyDictionary[FollowedLink, Master] = weakref.WeakKeyDictionary()
        self._dialling: dict[Dialling, Master] = {}
        self._using = 0
        """The number of calls of `open` in progress."""
        self._links_lock = threading.RLock()  # re-entrant: a signal handler may connect while its thread has the lock

    def after_fork(self) -> None:
        super().after_fork()
        self._begin()

    @property
    def server(self) -> str:
        master = self._scout.master
        return self.display if master is None else self._sentinel.at(*master.where).display()

    def leave(self) -> None:
        self.spare = lambda: None  # it refers to the client's idle links, and the scout's thread to this place
        self._scout.leave()

    def doubt(self, said: str) -> bool:
        """Asks the Sentinels. True for a server that has become a replica: its connection must not be used again."""
        self._scout.doubt()
        return "READONLY" in said

    def look_around(self) -> "LookAround":
        from holdtight.stores.redis.surroundings import LookAround  # an operator's verb

        return LookAround(self._sentinel, self._checked_tls).begin()

    # Connecting.

    def _open(self, timeout: float) -> SocketLink:
        until = boottime() + timeout
        with self._links_lock:
            self._using += 1
        try:
            while True:
                master = self._scout.ask(until)
                try:
                    return self._connect(master, max(SHORTEST_TRY, until - boottime()))
                except LinkDown:
                    if self._is_current(master) or boottime() >= until:
                        raise
        finally:
            with self._links_lock:
                self._using -= 1

    def _connect(self, master: Master, timeout: float) -> SocketLink:
        address = self._sentinel.at(*master.where)
        dialling = Dialling()
        with self._links_lock:
            self._dialling[dialling] = master
        try:
            self._check_current(master)  # `_left_for` either finds this attempt, or is found here
            tls = self._checked_tls(address)
            link = open_link(
                address, self.client, timeout, tls, dialling=dialling, link_type=FollowedLink, master_only=True
            )
            assert isinstance(link, FollowedLink)
            with self._links_lock:
                self._links[link] = master
        finally:
            with self._links_lock:
                del self._dialling[dialling]
        try:
            self._check_current(master)
        except LinkDown:
            link.close()
            raise
        return link

    def _check_current(self, master: Master) -> None:
        if not self._is_current(master):
            raise LinkDown(REPLACED, sent=False)

    def _is_current(self, master: Master) -> bool:
        known = self._scout.master
        return known is not None and known.where == master.where

    def _open_to_sentinel(self, address: "Address", timeout: float) -> SocketLink:
        return greeted(
            address, lambda login: greet_sentinel(login, address.client_name), timeout, self._checked_tls(address)
        )

    # Called by the scout, in its thread.

    def _in_use(self) -> bool:
        with self._links_lock:
            if self._using > 0 or any(link.fd >= 0 for link in self._links):
                return True
        return next(self.runtime.keeper.charges(self), None) is not None  # of a closed client

    def _left_for(self, old: Master, new: Master) -> None:
        """Ends every connection to another server than the new master, then lets everyone ask there at once."""
        with self._links_lock:
            links = [link for link, master in self._links.items() if master.where != new.where]
            dialling = [each for each, master in self._dialling.items() if master.where != new.where]
        for link in links:
            link.cut()
        for each in dialling:
            each.end()
        self._nudge()
        self.runtime.keeper.hurry_from(self, self.clock())
        self.tell_failover(self._sentinel.at(*old.where).display(), self._sentinel.at(*new.where).display())

    def _nudge(self) -> None:
        for transport in list(self.pausing):
            transport.nudge()
