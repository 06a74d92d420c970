"""With `min-replicas-to-write 1`, no moment of a failover has two servers that take writes."""

from __future__ import annotations

import threading
import time

from tests.support.processes import wait_for
from tests.support.raw import ServerSaid
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer
from tests.topology.test_doctor import configured


class Writer:
    """Writes to one server all the time; `taken` has the times before and after each write that the server took."""

    def __init__(self, server: RunningServer, stop: threading.Event) -> None:
        self.taken: list[tuple[float, float]] = []
        self._server, self._stop = server, stop
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._server.connect() as client:
                    while not self._stop.wait(0.002):
                        before = time.monotonic()
                        try:
                            client.call("SET", "k", "v")
                        except ServerSaid:
                            continue
                        self.taken.append((before, time.monotonic()))
            except OSError:
                continue  # a server that changes its role ends its connections


def both_took(topology: Topology) -> float:
    """For how long, after the new master took its first write, the old one still took some."""
    topology.periods(publish_period=1500)
    stop = threading.Event()
    writers = {server.port: Writer(server, stop) for server in topology.servers}
    old = topology.failover()
    now = topology.master
    wait_for(lambda: len(writers[now.port].taken) > 50, what="the new master to take writes")
    stop.set()
    for writer in writers.values():
        writer.thread.join()
    first = writers[now.port].taken[0][1]
    return max((before for before, _ in writers[old.port].taken), default=0.0) - first


def test_with_min_replicas_no_moment_has_two_masters(topology: Topology) -> None:
    with configured(topology.servers, min_replicas_to_write="1"):
        assert both_took(topology) <= 0
        topology.heal()


def test_without_it_the_old_master_goes_on(topology: Topology) -> None:
    assert both_took(topology) > 0
