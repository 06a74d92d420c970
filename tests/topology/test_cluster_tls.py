"""TLS between the nodes of a cluster and to clients; a user with only the rights that docs/permissions.md lists."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight import Unavailable
from tests.faults.clients import Colour, OpenClient, start, waiting
from tests.support.certificates import make_certificates
from tests.support.clusters import Cluster, slot_of, start_cluster
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.servers import DEBIAN_REDIS
from tests.topology.test_cluster_permissions import rights
from tests.topology.test_tls import FOR_ACKS, FOR_DOCTOR


@pytest.fixture(scope="module")
def formed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = DEBIAN_REDIS.missing() or (None if shutil.which("openssl") else "needs openssl")
    if missing:
        pytest.skip(missing)
    with start_cluster(DEBIAN_REDIS, tls=make_certificates(tmp_path_factory.mktemp("certificates"))) as cluster:
        yield cluster


@pytest.fixture
def secured(formed: Cluster) -> Iterator[Cluster]:
    """Each node has a user for locks, with the rights that the page lists."""
    formed.flushall()
    locker, more = rights()
    for server in formed.servers:
        server.command("ACL", "LOG", "RESET")
        server.command(*locker, *more, FOR_ACKS)
    yield formed
    formed.heal()


def url_of(cluster: Cluster) -> str:
    return cluster.url.replace("://", "://locker:secret@")


@pytest.fixture(params=["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def colour(request: pytest.FixtureRequest) -> Colour:
    """Both colours send the same requests."""
    found: Colour = request.param
    return found


def refusals(cluster: Cluster) -> list[object]:
    return [each for server in cluster.servers for each in server.command("ACL", "LOG")]


def test_locks_and_acks_by_tls_and_the_smallest_rights_live_through_a_failover_and_a_resharding(
    secured: Cluster, open_client: OpenClient
) -> None:
    old, target = secured.masters[:2]
    name = secured.name_on(old)
    client, other = open_client(url_of(secured), acks=1, ttl=5), open_client(url_of(secured), ttl=5)
    lease = client.acquire(name)
    assert lease.acks == 1
    assert lease.nodes == (f"rediss://127.0.0.1:{old.tls_port}/0",)
    waiter = start(lambda: other.acquire(name, wait=60))
    wait_for(lambda: waiting(old, name) == 1)
    now = secured.failover(old)
    wait_for(lambda: lease.nodes == (f"rediss://127.0.0.1:{now.tls_port}/0",), what="a renewal at the new master")
    with secured.moving(slot_of(name), target) as move:
        move.move(f"ht:{{{name}}}")
        renewed(lease)
    client.release(lease)
    other.release(waiter.result(20))
    assert refusals(secured) == []


def test_a_certificate_of_a_stranger_is_not_believed(secured: Cluster, open_client: OpenClient, tmp_path: Path) -> None:
    assert secured.tls is not None
    other = make_certificates(tmp_path)
    client = open_client(url_of(secured).replace(secured.tls.ca, other.ca), connect_timeout=1)
    with pytest.raises(Unavailable, match="certificate verify failed"):
        client.acquire("thing", wait=5)


def test_doctor_says_which_right_is_missing_and_looks_at_replicas_by_tls(
    secured: Cluster, open_client: OpenClient
) -> None:
    client = open_client(url_of(secured), acks=1, ttl=10)

    def found(*ids: str) -> list[str]:
        return [each.seen for each in client.call(client.locks.doctor) if each.id in ids]

    for server in secured.servers:
        server.command("ACL", "SETUSER", "locker", *FOR_DOCTOR.split(), "+cluster|nodes")
    wait_for(lambda: not found("REPLICA_LAG"), what="the replicas to be told that they are up to date")
    assert found("RIGHT_MISSING", "UNREACHABLE", "NOT_KNOWN") == []
    assert refusals(secured) == []
    first = secured.masters[0]
    for right, seen in (("wait", "acks: NOPERM"), ("spublish", "may not run spublish"), ("getex", "may not run getex")):
        first.command("ACL", "SETUSER", "locker", f"-{right}")
        (only,) = found("RIGHT_MISSING")
        assert seen in only
        first.command("ACL", "SETUSER", "locker", f"+{right}")
