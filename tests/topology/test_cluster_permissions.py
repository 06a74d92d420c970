"""The rights that docs/permissions.md names are enough on a cluster, and a user with fewer is told what is missing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from holdtight import NotPermitted
from holdtight.grants.lease import BaseLease
from tests.faults.clients import Colour, OpenClient, start, waiting
from tests.support.clusters import Cluster, slot_of
from tests.support.processes import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


@pytest.fixture(params=["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def colour(request: pytest.FixtureRequest) -> Colour:
    """Both colours send the same requests."""
    found: Colour = request.param
    return found


def rights() -> tuple[list[str], list[str]]:
    """The words for a user of one server, and those that a cluster adds."""
    locker = re.findall(r"^ACL SETUSER .*?(?=^```)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)[0].split()
    (more,) = re.findall(r"On a \[cluster\].*?```\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return locker, more.split()


@contextmanager
def user(cluster: Cluster, *words: str) -> Iterator[str]:
    """Yields the URL of a client with this user."""
    try:
        for server in cluster.servers:
            server.command("ACL", "LOG", "RESET")
            server.command(*words)
        yield cluster.url.replace("://", "://locker:secret@")
    finally:
        cluster.heal()
        for server in cluster.servers:
            server.command("ACL", "DELUSER", "locker")


def test_the_rights_that_are_listed_are_enough(cluster: Cluster, open_client: OpenClient) -> None:
    locker, more = rights()
    source, target = cluster.masters[:2]
    name = cluster.name_on(source)
    with user(cluster, *locker, *more) as url:
        holder, other = open_client(url, ttl=3), open_client(url, ttl=3)
        lease = holder.acquire(name)
        waiter = start(lambda: other.acquire(name, wait=30))
        wait_for(lambda: waiting(source, name) == 1)
        with cluster.moving(slot_of(name), target) as move:
            move.move(f"ht:{{{name}}}")
            left = lease.remaining()
            wait_for(lambda: lease.remaining() > left, what="a renewal by way of ASK")
        holder.release(lease)
        other.release(waiter.result(10))
        for server in cluster.servers:
            assert server.command("ACL", "LOG") == []


def test_without_the_right_to_listen_waiters_poll(cluster: Cluster, open_client: OpenClient) -> None:
    locker, more = rights()
    name = cluster.name_on(cluster.masters[0])
    with user(cluster, *locker, *more, "-ssubscribe") as url:
        holder, other = open_client(url), open_client(url)
        lease = holder.acquire(name)
        waiter = start(lambda: other.acquire(name, wait=30))
        wait_for(lambda: waiting(cluster.master_of(name), name) == 1)
        holder.release(lease)
        other.release(waiter.result(10))


@pytest.mark.parametrize("colour", ["asyncio"])
def test_without_the_right_to_ping_each_task_gets_its_own_answers(cluster: Cluster, open_client: OpenClient) -> None:
    """On a connection that many share, a PING goes behind the request to listen."""
    locker, more = rights()
    server = cluster.masters[0]
    name, names = cluster.name_on(server), list(islice(cluster.names_on(server, "free"), 200))
    with user(cluster, *locker, *more, "-ping") as url:
        holder, other = open_client(url, ttl=60), open_client(url, ttl=60)
        lease = holder.acquire(name)
        waiter = start(lambda: other.acquire(name, wait=30))
        wait_for(lambda: waiting(server, name) == 1)

        async def all_at_once() -> list[BaseLease]:
            return list(await asyncio.gather(*(other.locks.lock(each).acquire() for each in names)))

        leases = other.call(all_at_once)
        with server.connect() as raw:
            kept = [raw.call("GET", f"ht:{{{each}}}").encode("utf-8", "surrogateescape") for each in names]
        assert [each.fence for each in leases] == [int(value[27:43]) for value in kept]
        wait_for(lambda: len(server.command("PUBSUB", "SHARDCHANNELS")) == 1, what="the waiter to listen")
        holder.release(lease)
        for each in [waiter.result(10), *leases]:
            other.release(each)


DOCTORS = ["+scan", "+config|get", "+dbsize", "+ping", "+info", "+cluster|nodes"]


def test_doctor_names_the_rights_that_only_a_cluster_needs(cluster: Cluster, open_client: OpenClient) -> None:
    locker, more = rights()

    def missing(*words: str) -> set[str]:
        with user(cluster, *locker, *more, *DOCTORS, *words) as url:
            client = open_client(url, ttl=60)
            found = client.call(client.locks.doctor)
            return {each.seen for each in found if each.id == "RIGHT_MISSING"}

    assert missing() == set()
    assert missing("-ssubscribe", "-asking") == {f"the user may not run {word}" for word in ("ssubscribe", "asking")}
    assert missing("-sunsubscribe", "-spublish") == {
        f"the user may not run {word}" for word in ("sunsubscribe", "spublish")
    }
    assert missing("-pubsub|shardnumsub") == {"the user may not run pubsub|shardnumsub"}
    (refused,) = missing("-cluster|slots")
    assert "NOPERM" in refused


@pytest.mark.parametrize("missing", ["-cluster|slots", "-evalsha"])
def test_a_missing_right_is_named(cluster: Cluster, open_client: OpenClient, missing: str) -> None:
    locker, more = rights()
    with user(cluster, *locker, *more, missing) as url:
        client = open_client(url)
        with pytest.raises(NotPermitted, match="NOPERM"):
            client.acquire("thing", wait=1)
    with user(cluster, *locker, *more) as url:
        client = open_client(url.replace("secret", "wrong"))
        with pytest.raises(NotPermitted, match="WRONGPASS") as caught:
            client.acquire("thing", wait=1)
        assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
