"""A cluster of three masters with a replica each, as real processes.

    with start_cluster(VALKEY_9) as cluster:
        Locks(cluster.url)
        master = cluster.master_of("thing")      # the server that has the lock called "thing"
        cluster.failover(master)                 # orderly; a crash: master.kill(), a hung one: master.pause()
        cluster.heal()                           # all run again, and all agree

A node counts another as dead after one and a half seconds, so that a failover takes about three.
"""

from __future__ import annotations

import time
from binascii import crc_hqx
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

from tests.support.certificates import Certificates
from tests.support.processes import wait_for
from tests.support.raw import RawClient, ServerSaid
from tests.support.servers import VALKEY_9, Flavour, RunningServer, free_port
from tests.support.slot_moves import Move

__all__ = ["CLUSTER", "SLOTS", "Cluster", "ClusterNode", "WholeCluster", "slot_of", "start_cluster", "start_steady"]

MASTERS = 3
SLOTS = 16384
NODE_TIMEOUT_MS = 1500
"""How long a node is silent before the others call it dead: a busy machine must not look like a crash."""
FAILOVER_GIVEN_UP = 6.0
"""Seconds after which an ordered failover that has not happened will not happen."""
STEADY_TIMEOUT_MS = 15_000


def start_cluster(flavour: Flavour, *options: str, tls: Certificates | None = None) -> Cluster:
    """`options` are further options of the servers."""
    return Cluster(flavour, options, tls)


def start_steady(flavour: Flavour) -> Cluster:
    """One that does not fail over, however busy the machine is."""
    return Cluster(flavour, ("--cluster-node-timeout", str(STEADY_TIMEOUT_MS)))


def slot_of(name: str, namespace: str = "ht") -> int:
    """The slot of a lock."""
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return crc_hqx(escaped.encode(), 0) % SLOTS


class ClusterNode(RunningServer):
    """One node. After a restart it knows the others from its file."""

    stopped = False

    def pause(self) -> None:
        self.stopped = True
        super().pause()

    def resume(self) -> None:
        super().resume()
        self.stopped = False

    def restart(self) -> None:
        super().restart()
        self.stopped = False

    @property
    def id(self) -> str:
        return str(self.command("CLUSTER", "MYID"))


class Cluster:
    """All of its processes end with it, even if it does not form."""

    def __init__(self, flavour: Flavour, options: tuple[str, ...], tls: Certificates | None = None) -> None:
        self.flavour, self.tls = flavour, tls
        self._stack = ExitStack()
        self._elected: dict[ClusterNode, float] = {}
        try:
            self._options = options
            self.servers = [self._begin() for _ in range(2 * MASTERS)]
            self._form()
            self.agreed()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> ClusterNode:
        binary = self.flavour.binary()
        if binary is None:
            raise RuntimeError(f"{self.flavour.name} {self.flavour.missing()}")
        words: tuple[str, ...] = (
            *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(free_port())),
            *("--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-replica-validity-factor", "0"),
            *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--cluster-migration-barrier", "9"),
        )
        if self.tls is not None:
            words += ("--tls-cluster", "yes", "--tls-replication", "yes")
            words += ("--tls-client-cert-file", self.tls.client_cert, "--tls-client-key-file", self.tls.client_key)
        node = ClusterNode(self.flavour, binary, (*words, *self._options), None, None, self.tls, False)
        return self._stack.enter_context(node)

    def _form(self) -> None:
        first = self.servers[0]
        for at, each in enumerate(self.servers, 1):
            each.command("CLUSTER", "SET-CONFIG-EPOCH", at)
        masters, replicas = self.servers[:MASTERS], self.servers[MASTERS:]
        for at, master in enumerate(masters):
            begin, end = at * SLOTS // MASTERS, (at + 1) * SLOTS // MASTERS - 1
            master.command("CLUSTER", "ADDSLOTSRANGE", begin, end)
        for each in self.servers[1:]:
            each.command("CLUSTER", "MEET", "127.0.0.1", first.port, self._bus_port(first))
        everybody = len(self.servers)
        wait_for(lambda: all(len(self.known_by(each)) == everybody for each in self.servers), what="nodes to meet")
        for master, replica in zip(masters, replicas, strict=True):
            self._replicate(replica, master)

    def join(self, master: ClusterNode) -> ClusterNode:
        """One more replica. Such a cluster is not well in the sense of `agreed`."""
        node = self._begin()
        node.command("CLUSTER", "MEET", "127.0.0.1", master.port, self._bus_port(master))
        others = list(self.servers)
        self.servers.append(node)
        wait_for(lambda: len(self.known_by(node)) == len(self.servers), what="nodes to meet")
        self._replicate(node, master)
        wait_for(lambda: node.info("replication")["master_link_status"] == "up", what="a replica to follow")
        wait_for(lambda: all(self._lists(each, node) for each in others), what="the replica to be listed")
        return node

    def _lists(self, asked: ClusterNode, replica: ClusterNode) -> bool:
        return any(replica.port in found[2:] for found in self._map_of(asked).values())

    @staticmethod
    def _bus_port(node: ClusterNode) -> int:
        return int(node.command("CONFIG", "GET", "cluster-port")[1])

    @staticmethod
    def _replicate(replica: ClusterNode, master: ClusterNode) -> None:
        def begins() -> bool:
            with suppress(ServerSaid):
                replica.command("CLUSTER", "REPLICATE", master.id)
                return True
            return False

        wait_for(begins, what="a replica to follow its master")

    # What its nodes say.

    @property
    def url(self) -> str:
        if self.tls is not None:
            hosts = ",".join(f"127.0.0.1:{each.tls_port}" for each in self.servers[:MASTERS])
            return f"rediss+cluster://{hosts}?ssl_ca_certs={self.tls.ca}"
        return "redis+cluster://" + ",".join(f"127.0.0.1:{each.port}" for each in self.servers[:MASTERS])

    @staticmethod
    def known_by(node: RunningServer) -> dict[int, list[str]]:
        """What a node knows of each node, by port: the words of CLUSTER NODES."""
        lines = str(node.command("CLUSTER", "NODES")).splitlines()
        return {int(words[1].split("@")[0].split(":")[1]): words for words in map(str.split, lines)}

    @property
    def living(self) -> list[ClusterNode]:
        return [each for each in self.servers if each.running and not each.stopped]

    def map(self) -> dict[int, tuple[ClusterNode, list[ClusterNode]]]:
        """The master and the replicas of the first slot of each range, as most of the living nodes say."""
        told = [self._map_of(each) for each in self.living]
        ports = max(told, key=told.count)
        at = {each.port: each for each in self.servers}
        return {begin: (at[found[1]], [at[port] for port in found[2:]]) for begin, found in ports.items()}

    @staticmethod
    def _map_of(node: RunningServer) -> dict[int, tuple[int, ...]]:
        told = node.command("CLUSTER", "SLOTS")
        return {begin: (end, *(int(each[1]) for each in nodes)) for begin, end, *nodes in told}

    @property
    def masters(self) -> list[ClusterNode]:
        return list(dict.fromkeys(master for master, _ in self.map().values()))

    def serving(self, slot: int) -> tuple[ClusterNode, list[ClusterNode]]:
        """The master of a slot, and its replicas."""
        ranges = self.map()
        return ranges[max(begin for begin in ranges if begin <= slot)]

    def master_of(self, name: str) -> ClusterNode:
        return self.serving(slot_of(name))[0]

    def name_on(self, master: RunningServer, prefix: str = "name") -> str:
        """A name whose lock this master has."""
        return next(self.names_on(master, prefix))

    def names_on(self, master: RunningServer, prefix: str = "name") -> Iterator[str]:
        told = self._map_of(self.living[0]).items()
        owned = [range(begin, found[0] + 1) for begin, found in told if found[1] == master.port]
        number = 0
        while True:
            name = f"{prefix}:{number}"
            if any(slot_of(name) in each for each in owned):
                yield name
            number += 1

    @staticmethod
    def ours(server: RunningServer) -> list[str]:
        """The names of holdtight's connections to a server."""
        return [each["name"] for each in server.clients() if each["name"].startswith("holdtight")]

    # Doing things to it.

    def failover(self, master: ClusterNode) -> ClusterNode:
        """Orders a failover. Returns the new master as soon as that says it is the master."""
        replica = next(replicas[0] for each, replicas in self.map().values() if each is master)
        wait_for(self.taken_over_by(replica), what="another master")
        return replica

    def taken_over_by(self, replica: ClusterNode) -> Callable[[], bool]:
        """Orders a failover, and returns what says whether the replica is the master. It orders again where the servers
        have given up: on a busy machine the replica may not get the votes in their five seconds.

        Redis 7.0 keeps the votes of a server's last election for two periods. It wins a failover within them at once,
        with the epoch of back then: it takes writes, and the other servers turn it into a replica again.
        """
        period = 2 * max(2.0, 2 * int(replica.command("CONFIG", "GET", "cluster-node-timeout")[1]) / 1000)
        elected = self._elected.get(replica, -2 * period)
        wait_for(lambda: time.monotonic() > elected + period, within=2 * period, what="old votes to be forgotten")
        wait_for(lambda: self.ordered(replica), what="a replica to take over")
        order_again = time.monotonic() + FAILOVER_GIVEN_UP

        def taken_over() -> bool:
            nonlocal order_again
            if self.is_master(replica):
                self._elected[replica] = time.monotonic()
                return True
            if time.monotonic() >= order_again and self.ordered(replica):
                order_again = time.monotonic() + FAILOVER_GIVEN_UP
            return False

        return taken_over

    def is_master(self, node: ClusterNode) -> bool:
        """In its own eyes."""
        return "master" in self.known_by(node)[node.port][2]

    @staticmethod
    def ordered(replica: ClusterNode) -> bool:
        with suppress(ServerSaid):
            replica.command("CLUSTER", "FAILOVER")
            return True
        return False

    def replaced(self, master: RunningServer, within: float = 15) -> float:
        """Waits until most nodes name another master for the slots of this one. Returns that moment."""

        def named() -> bool:
            with suppress(OSError, ServerSaid, KeyError):
                return master not in self.masters
            return False

        wait_for(named, within=within, what="another master")
        return time.monotonic()

    @contextmanager
    def moving(self, slot: int, to: ClusterNode) -> Iterator[Move]:
        """A slot that is moved key by key. At the end it has arrived."""
        move = Move(self, slot, self.serving(slot)[0], to)
        try:
            yield move
        finally:
            move.finish()

    def migrate(self, slot: int, to: ClusterNode) -> None:
        """Moves a slot as Valkey 9 does by itself, all keys at once, and waits until it has arrived."""
        source = self.serving(slot)[0]
        source.command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to.id)
        wait_for(lambda: self.serving(slot)[0] is to, what="the slot to arrive")

    def agreed(self) -> None:
        """Waits until all nodes say the same, every master has its replica, and all slots are served."""
        wait_for(self._is_well, what="the cluster to agree", within=30)

    def _is_well(self) -> bool:
        with suppress(OSError, ServerSaid, KeyError):
            first = self._map_of(self.servers[0])
            if sum(found[0] - begin + 1 for begin, found in first.items()) != SLOTS:
                return False
            if any(len(found) != 3 for found in first.values()):
                return False
            if len({found[1] for found in first.values()}) != MASTERS:
                return False
            for each in self.servers:
                told = self.known_by(each)
                if self._map_of(each) != first or len(told) != len(self.servers):
                    return False
                if any("fail" in words[2] or words[7] != "connected" for words in told.values()):
                    return False
                if "cluster_state:ok" not in str(each.command("CLUSTER", "INFO")):
                    return False
                replication = each.info("replication")
                if replication["role"] == "slave" and replication["master_link_status"] != "up":
                    return False
            return True
        return False

    def heal(self) -> None:
        """Everything runs again; no slot is being moved."""
        for server in self.servers:
            if server.running:
                server.resume()
            else:
                server.restart()
        self.agreed()

    def flushall(self) -> None:
        for master in self.masters:
            master.flushall()

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cluster of {self.flavour.name}>"


class ClusterFlavour:
    """Scenarios on a cluster."""

    name = "cluster"

    def missing(self) -> str | None:
        return VALKEY_9.missing()

    def __repr__(self) -> str:
        return self.name


CLUSTER = ClusterFlavour()


class WholeCluster:
    """In place of a server, for scenarios: sends their commands to all masters."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.flavour = cluster.flavour
        self.version = cluster.servers[0].version

    @property
    def url(self) -> str:
        return self.cluster.url

    @property
    def pid(self) -> tuple[int, ...]:
        return tuple(each.pid for each in self.cluster.servers)

    @property
    def running(self) -> bool:
        return all(each.running for each in self.cluster.servers)

    def restart(self) -> None:
        self.cluster.heal()

    def resume(self) -> None:
        for each in self.cluster.servers:
            each.resume()

    def flushall(self) -> None:
        self.cluster.flushall()

    def keys(self, pattern: str = "*") -> list[str]:
        return sorted(key for each in self.cluster.masters for key in each.keys(pattern))

    def time_left(self, db: int = 0) -> dict[str, int]:
        return {key: left for each in self.cluster.masters for key, left in each.time_left(db).items()}

    def clients(self) -> list[dict[str, str]]:
        return [client for each in self.cluster.servers for client in each.clients()]

    def command(self, *args: str | bytes | float) -> Any:
        """Asks the master of the slot of the command's first key."""
        key = args[3 if str(args[0]).upper() in ("EVAL", "EVALSHA") else 1]
        text = key if isinstance(key, bytes) else str(key).encode()
        tag = text[text.index(b"{") + 1 : text.index(b"}")] if b"{" in text else text
        return self.cluster.serving(crc_hqx(tag, 0) % SLOTS)[0].command(*args)

    def connect(self, timeout: float = 5.0) -> RawClient:
        raise NotImplementedError("a cluster has no connection of its own")
