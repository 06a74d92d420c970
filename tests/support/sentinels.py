"""A master, two replicas and three Sentinels, as real processes.

    with start_sentinels(VALKEY_9) as topology:
        Locks(topology.url)
        topology.failover()              # orderly; a crash: topology.master.kill(), a hung one: topology.master.pause()
        topology.heal()                  # all run again, and all Sentinels agree

The Sentinels' periods are shortened (SENTINEL DEBUG), so that a set forms, fails over and heals within seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support.certificates import Certificates
from tests.support.processes import popen, wait_for
from tests.support.raw import ServerSaid
from tests.support.servers import VALKEY_9, Flavour, RunningServer, free_port, start

__all__ = ["SENTINEL", "SERVICE", "FollowedMaster", "SentinelServer", "Topology", "start_sentinels"]

Server = TypeVar("Server", bound=RunningServer)
SERVICE = "mymaster"
SENTINELS = 3
REPLICAS = 2
DOWN_AFTER_MS = 1000
"""How long a server is silent before a Sentinel calls it down: a busy machine must not look like a crash."""
FAILOVER_MS = 1500
FORMING_MS = 200
"""The period in which Sentinels tell each other what they know, while a set forms or heals. After four of them a
Sentinel turns a server that is not the master it knows into a replica: too soon for a test of a failover."""
# Five ping periods must outlast a second: a replica whose INFO is older than that is not promoted.
PERIODS = {"info-period": 200, "ping-period": 400, "ask-period": 100, "publish-period": 600, "election-timeout": 1000}
_SERVER = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


def start_sentinels(flavour: Flavour, *options: str, tls: Certificates | None = None) -> Topology:
    """`options` are further options of the servers. With `tls`, servers, Sentinels and clients use nothing else; tests
    look at the servers by their plain ports."""
    return Topology(flavour, options, tls)


class SentinelServer(RunningServer):
    """One Sentinel. After a restart it has forgotten what it learned."""

    def __init__(
        self, flavour: Flavour, master: int, *, password: str | None = None, tls: Certificates | None = None
    ) -> None:
        binary = flavour.binary()
        assert binary is not None, flavour.missing()
        self._master = master
        super().__init__(flavour, binary, (), free_port(), password, tls, False)

    def _config(self) -> list[str]:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._master} {SENTINELS // 2 + 1}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_MS}",
            f"sentinel parallel-syncs {SERVICE} {REPLICAS}",
        ]
        if self.tls is not None:
            lines += [
                f"tls-port {self.tls_port}",
                f"tls-cert-file {self.tls.server_cert}",
                f"tls-key-file {self.tls.server_key}",
                f"tls-ca-cert-file {self.tls.ca}",
                "tls-auth-clients optional",
                f"tls-client-cert-file {self.tls.client_cert}",
                f"tls-client-key-file {self.tls.client_key}",
                "tls-replication yes",
            ]
        if self.password is not None:
            lines.append(f"requirepass {self.password}")
        return lines

    def _launch(self) -> bool:
        config = self.folder / "sentinel.conf"
        config.write_text("\n".join(self._config()) + "\n")
        with Path(self.folder / "log").open("ab") as log:
            self._process = popen([str(self._binary), str(config), "--sentinel"], stdout=log, stderr=log)
        wait_for(self._answers_or_ended, what=f"a Sentinel of {self.flavour.name} to answer")
        return self.running

    def periods(self, **changed: int) -> None:
        """`publish_period=2000`: how long an old master stays one (four times that)."""
        periods = PERIODS | {word.replace("_", "-"): value for word, value in changed.items()}
        self.command("SENTINEL", "DEBUG", *(word for pair in periods.items() for word in map(str, pair)))

    def state(self) -> dict[str, str]:
        told = self.command("SENTINEL", "MASTER", SERVICE)
        return dict(zip(told[::2], told[1::2], strict=True))

    def named(self) -> int:
        """The port of the master, according to this Sentinel."""
        return int(self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


class Topology:
    """All of its processes end with it, even if it does not form."""

    def __init__(self, flavour: Flavour, options: tuple[str, ...], tls: Certificates | None = None) -> None:
        self.flavour = flavour
        self.tls = tls
        self._stack = ExitStack()
        options = (*_SERVER, *options)
        if tls is not None:
            options += ("--tls-replication", "yes", "--tls-client-cert-file", tls.client_cert)
            options += ("--tls-client-key-file", tls.client_key)
        try:
            first = self._begin(start(flavour, *options, tls=tls))
            self.servers = [first]
            follow = ("--replicaof", f"127.0.0.1 {self.known_as(first)}")
            for _ in range(REPLICAS):
                self.servers.append(self._begin(start(flavour, *options, *follow, tls=tls)))
            port = self.known_as(first)
            self.sentinels = [self._begin(SentinelServer(flavour, port, tls=tls)) for _ in range(SENTINELS)]
            self.periods(publish_period=FORMING_MS)
            self.agreed()
            self.periods()
        except BaseException:
            self.close()
            raise

    def _begin(self, server: Server) -> Server:
        self._stack.enter_context(server)
        return server

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{self.known_as(sentinel)}" for sentinel in self.sentinels)
        if self.tls is None:
            return f"redis+sentinel://{hosts}/{SERVICE}"
        return f"rediss+sentinel://{hosts}/{SERVICE}?ssl_ca_certs={self.tls.ca}"

    def known_as(self, server: RunningServer) -> int:
        """The port that Sentinels and clients know."""
        port = server.port if self.tls is None else server.tls_port
        assert port is not None
        return port

    @property
    def master(self) -> RunningServer:
        """According to the Sentinel that knows of the latest failover."""
        told = [(int(each.state()["config-epoch"]), each.named()) for each in self.sentinels if each.running]
        port = max(told)[1]
        return next(server for server in self.servers if self.known_as(server) == port)

    @property
    def replicas(self) -> list[RunningServer]:
        master = self.master
        return [server for server in self.servers if server is not master]

    def periods(self, **changed: int) -> None:
        for sentinel in self.sentinels:
            sentinel.periods(**changed)

    @staticmethod
    def ours(server: RunningServer) -> list[str]:
        """The names of holdtight's connections to a server."""
        return [each["name"] for each in server.clients() if each["name"].startswith("holdtight")]

    def failover(self) -> RunningServer:
        """Orders one and waits until the Sentinel that was told names another. Returns the old master, which lives."""
        old = self.master
        wait_for(self.ordering(old), what="another master")
        return old

    def ordering(self, old: RunningServer) -> Callable[[], bool]:
        """Orders one when it is called, and tells each time whether the Sentinel that was told names another."""
        again = 0.0

        def carried_out() -> bool:
            nonlocal again
            if self.sentinels[0].named() != self.known_as(old):
                return True
            if time.monotonic() >= again and self._ordered():
                again = time.monotonic() + 4 * FAILOVER_MS / 1000  # on a busy machine a Sentinel may give up
            return False

        return carried_out

    def _ordered(self) -> bool:
        with suppress(ServerSaid):  # INPROG, or NOGOODSLAVE for a moment
            self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
            return True
        return False

    def agreed(self) -> None:
        """Waits until all Sentinels name one master, which has all replicas, and know of each other."""
        wait_for(self._is_well, what="the Sentinels to agree on a master with its replicas")

    def _is_well(self) -> bool:
        with suppress(OSError, ServerSaid, StopIteration, KeyError):
            master, port = self.master, str(self.known_as(self.master))
            states = [sentinel.state() for sentinel in self.sentinels]
            if any(state["flags"] != "master" or state["port"] != port for state in states):
                return False
            if any(state["num-other-sentinels"] != str(SENTINELS - 1) for state in states):
                return False
            if any(int(state["num-slaves"]) < REPLICAS for state in states):
                return False
            for replica in self.replicas:
                told = replica.info("replication")
                if told["role"] != "slave" or told["master_port"] != port:
                    return False
                if told["master_link_status"] != "up":
                    return False
            return master.info("replication")["role"] == "master"
        return False

    def heal(self) -> None:
        """Everything runs again, with the usual periods."""
        for server in (*self.servers, *self.sentinels):
            if server.running:
                server.resume()
            else:
                server.restart()
        self.periods(publish_period=FORMING_MS)
        self.agreed()
        self.periods()

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sentinel of {self.flavour.name}>"


class SentinelFlavour:
    """Scenarios on the master of a topology, which their clients find through its Sentinels."""

    name = "sentinel"

    def missing(self) -> str | None:
        return VALKEY_9.missing()

    def __repr__(self) -> str:
        return self.name


SENTINEL = SentinelFlavour()


class FollowedMaster:
    """In place of a server, for scenarios: the URL is that of the Sentinels, all else is the master's."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._master = topology.master

    @property
    def url(self) -> str:
        return self._topology.url + "/0"

    @property
    def pid(self) -> int:
        """Asked before and after each scenario: looks which server is the master."""
        self._master = self._topology.master
        return self._master.pid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._master, name)
