"""TLS between servers, Sentinels and clients, with users that have no more rights than docs/permissions.md lists."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight import NotPermitted, Unavailable
from holdtight.events import Event, FailedOver
from tests.faults.clients import OpenClient, start, waiting
from tests.support.certificates import make_certificates
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.sentinels import Topology, start_sentinels
from tests.support.servers import DEBIAN_REDIS, RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
LOCKER, SCOUT = re.findall(r"^ACL SETUSER .*?(?=^```)", PAGE, flags=re.DOTALL | re.MULTILINE)
FOR_ACKS, FOR_DOCTOR = "+wait", "+scan +xadd +xlen +xrevrange +config|get +dbsize +ping +info"


@pytest.fixture(scope="module")
def formed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    missing = DEBIAN_REDIS.missing() or (None if shutil.which("openssl") else "needs openssl")
    if missing:
        pytest.skip(missing)
    with start_sentinels(DEBIAN_REDIS, tls=make_certificates(tmp_path_factory.mktemp("certificates"))) as topology:
        yield topology


@pytest.fixture
def secured(formed: Topology) -> Iterator[Topology]:
    """Each server has a user for locks, each Sentinel one for clients, with the rights that the page lists."""
    formed.master.flushall()
    for server in formed.servers:
        server.command("ACL", "LOG", "RESET")
        server.command(*LOCKER.split(), FOR_ACKS)
    for sentinel in formed.sentinels:
        sentinel.command(*SCOUT.split())
    yield formed
    formed.heal()


def url_of(topology: Topology) -> str:
    return topology.url.replace("://", "://locker:secret@")


LOGIN = {"sentinel_credentials": ("scout", "secret")}


def refusals(servers: list[RunningServer]) -> list[object]:
    return [each for server in servers for each in server.command("ACL", "LOG")]


def test_locks_and_acks_by_tls_and_the_smallest_rights_live_through_a_failover(
    secured: Topology, open_client: OpenClient
) -> None:
    client = open_client(url_of(secured), acks=1, ttl=5, **LOGIN)
    other = open_client(url_of(secured), ttl=5, **LOGIN)
    heard: list[Event] = []
    client.locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, FailedOver) else None)
    lease = client.acquire("thing")
    assert lease.acks >= 1
    waiter = start(lambda: other.acquire("thing", wait=60))
    wait_for(lambda: waiting(secured.master, "thing") == 1)
    secured.failover()
    wait_for(lambda: heard, within=10, what="the Sentinels to announce the failover")
    renewed(lease)
    client.release(lease)
    other.release(waiter.result(20))
    assert refusals(secured.servers) == []


def test_a_login_that_is_refused_is_told_by_name_and_without_the_password(
    secured: Topology, open_client: OpenClient
) -> None:
    wrong = open_client(url_of(secured), sentinel_credentials=("scout", "hunter2"))
    with pytest.raises(NotPermitted, match=r"Sentinel 127\.0\.0\.1:\d+: WRONGPASS") as refused:
        wrong.acquire("thing", wait=5)
    assert "hunter2" not in str(refused.value)
    stranger = open_client(secured.url.replace("://", "://locker:hunter2@"), **LOGIN)
    with pytest.raises(NotPermitted, match="WRONGPASS") as refused:
        stranger.acquire("thing", wait=5)
    assert "hunter2" not in str(refused.value)


def test_a_certificate_of_a_stranger_is_not_believed(
    secured: Topology, open_client: OpenClient, tmp_path: Path
) -> None:
    assert secured.tls is not None
    other = make_certificates(tmp_path)
    client = open_client(url_of(secured).replace(secured.tls.ca, other.ca), connect_timeout=1, **LOGIN)
    with pytest.raises(Unavailable, match="certificate verify failed"):
        client.acquire("thing", wait=5)


def test_doctor_says_which_right_is_missing(secured: Topology, open_client: OpenClient) -> None:
    client = open_client(url_of(secured), acks=1, ttl=10, **LOGIN)

    def rights() -> list[str]:
        return [each.seen for each in client.call(client.locks.doctor) if each.id == "RIGHT_MISSING"]

    for server in secured.servers:
        server.command("ACL", "SETUSER", "locker", *FOR_DOCTOR.split())
    assert rights() == []
    for right, seen in (("wait", "acks: NOPERM"), ("publish", "may not run publish"), ("getex", "may not run getex")):
        secured.master.command("ACL", "SETUSER", "locker", f"-{right}")
        (found,) = rights()
        assert seen in found
        secured.master.command("ACL", "SETUSER", "locker", f"+{right}")
