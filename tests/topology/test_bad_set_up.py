"""`doctor` on a set-up in which everything is wrong finds each fault; with all of them mended it finds none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdtight import Locks, Severity
from tests.faults.clocks import Clock, build_shim, step
from tests.support.clusters import slot_of, start_cluster
from tests.support.processes import wait_for
from tests.support.sentinels import Topology, start_sentinels
from tests.support.servers import VALKEY_9, RunningServer, start
from tests.topology.test_cluster_permissions import rights
from tests.topology.test_doctor import configured

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
USER = re.findall(r"^ACL SETUSER .*?(?=^```)", PAGE, flags=re.DOTALL | re.MULTILINE)[0]
FOR_DOCTOR = ["+scan", "+config|get", "+dbsize", "+ping", "+wait"]
EXPECTED = {
    "EVICTION",
    "REPLICA_PRIORITY",
    "CLOCK_SKEW",
    "RIGHT_MISSING",
    "EMPTY_RESTART",
    "PTTL_ABOVE_TTL",
    "MIN_REPLICAS",
    "SLOW_FAILOVER",
    "WRITABLE_REPLICA",
    "ACKS_UNREACHABLE",
    "FEW_SENTINELS",
}


@pytest.fixture
def topology() -> Iterator[Topology]:
    with start_sentinels(VALKEY_9, "--appendonly", "yes", "--min-replicas-to-write", "1") as topology:
        yield topology


@contextmanager
def shimmed(folder: Path) -> Iterator[Clock]:
    """Servers that are started here have a clock that the test sets."""
    clock = Clock(folder / "offset")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(build_shim(folder)))
        patch.setenv("CLOCKSHIM_FILE", str(folder / "offset"))
        yield clock


@pytest.fixture
def stepped(topology: Topology, tmp_path: Path) -> Iterator[tuple[RunningServer, Clock]]:
    """A third replica, whose clock the test sets."""
    with shimmed(tmp_path) as clock:
        replica = start(
            VALKEY_9,
            *("--replicaof", f"127.0.0.1 {topology.master.port}", "--appendonly", "yes"),
            *("--repl-diskless-sync-delay", "0", "--min-replicas-to-write", "1"),
        )
    with replica:
        wait_for(lambda: all(int(each.state()["num-slaves"]) == 3 for each in topology.sentinels), what="its discovery")
        yield replica, clock
    clock.close()


def found(locks: Locks) -> dict[str, Severity]:
    return {each.id: each.severity for each in locks.doctor() if each.severity is not Severity.NOTE}


def test_each_fault_is_found_and_without_them_none(topology: Topology, stepped: tuple[RunningServer, Clock]) -> None:
    replica, clock = stepped
    servers = [*topology.servers, replica]
    for server in servers:
        server.command(*USER.split(), *FOR_DOCTOR)
    url = topology.url.replace("://", "://locker:secret@")
    with Locks(url, ttl=10, acks=3) as good, Locks(url, ttl=2, acks=4) as bad, ExitStack() as faults:
        wait_for(lambda: found(good) == {}, what="a good set-up without a finding")

        with Locks(topology.master.url, ttl=3600) as other:
            faults.callback(other.lock("long").acquire().release)
            faults.enter_context(configured([topology.master], maxmemory="100mb", maxmemory_policy="allkeys-lru"))
            faults.enter_context(configured(topology.servers, appendonly="no", min_replicas_to_write="0"))
            faults.enter_context(configured([replica], replica_priority="0", replica_read_only="no"))
            topology.master.command("ACL", "SETUSER", "locker", "-publish")
            faults.callback(topology.master.command, "ACL", "SETUSER", "locker", "+publish")
            topology.sentinels[2].kill()
            faults.callback(topology.heal)
            step(replica, clock, 60)
            faults.callback(step, replica, clock, 0)
            assert set(found(bad)) == EXPECTED
            assert found(bad)["CLOCK_SKEW"] is Severity.ERROR
            faults.close()

        wait_for(lambda: found(good) == {}, what="the mended set-up to be without a finding")


EXPECTED_ON_A_CLUSTER = {
    "EVICTION",
    "REPLICA_PRIORITY",
    "REPLICA_LAG",
    "CLOCK_SKEW",
    "RIGHT_MISSING",
    "EMPTY_RESTART",
    "PTTL_ABOVE_TTL",
    "SLOW_FAILOVER",
    "WRITABLE_REPLICA",
    "ACKS_UNREACHABLE",
    "SLOT_OPEN",
}


def test_each_fault_of_a_cluster_is_found_and_without_them_none(tmp_path: Path) -> None:
    with start_cluster(VALKEY_9, "--appendonly", "yes") as cluster:
        master, target = cluster.masters[:2]
        with shimmed(tmp_path) as clock:
            replica = cluster.join(master)
        silent = next(replicas[0] for each, replicas in cluster.map().values() if each is target)
        for server in cluster.servers:
            server.command(*USER.split(), *FOR_DOCTOR, *rights()[1], "+cluster|nodes")
        url = cluster.url.replace("://", "://locker:secret@")
        name = cluster.name_on(master)
        with Locks(url, ttl=10, acks=1) as good, Locks(url, ttl=2, acks=3) as bad, ExitStack() as faults:
            wait_for(lambda: found(good) == {}, what="a good set-up without a finding")

            faults.callback(clock.close)
            with Locks(cluster.url, ttl=3600) as other:
                faults.callback(other.lock(name).acquire().release)
                faults.enter_context(configured([master], maxmemory="100mb", maxmemory_policy="allkeys-lru"))
                faults.enter_context(configured([target], appendonly="no"))
                faults.enter_context(configured([replica], replica_priority="0", replica_read_only="no"))
                master.command("ACL", "SETUSER", "locker", "-spublish")
                faults.callback(master.command, "ACL", "SETUSER", "locker", "+spublish")
                slot = slot_of(cluster.name_on(master, "another"))
                master.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
                faults.callback(master.command, "CLUSTER", "SETSLOT", slot, "STABLE")
                step(replica, clock, 60)
                faults.callback(step, replica, clock, 0)
                silent.pause()
                faults.callback(silent.resume)
                seen = found(bad)
                assert set(seen) == EXPECTED_ON_A_CLUSTER
                assert seen["CLOCK_SKEW"] is Severity.ERROR
                faults.close()

            wait_for(lambda: found(good) == {}, what="the mended set-up to be without a finding")
