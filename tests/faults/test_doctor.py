"""`doctor` finds what is wrong with a real server, and nothing on a good one."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from holdtight import Profile, Severity
from holdtight.core.doctor import Case, doctor
from tests.faults.clients import OpenClient
from tests.faults.clocks import Clock, start_stepped, step
from tests.faults.doctoring import GOOD, findings, ids, is_reached, one
from tests.support.proxy import Proxy
from tests.support.servers import FLAVOURS, RunningServer, StartServer, free_port

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


@pytest.fixture
def good(start_server: StartServer) -> RunningServer:
    return start_server(*GOOD)


@pytest.mark.parametrize("flavour", FLAVOURS, ids=repr)
def test_nothing_is_found_on_a_good_server_and_no_key_is_left(
    start_server: StartServer, open_client: OpenClient, flavour: Any
) -> None:
    server = start_server(*GOOD, flavour=flavour)
    client = open_client(server.url)
    leases = [client.acquire(f"job:{number}") for number in range(3)]
    before = server.keys()
    assert findings(client) == []
    assert server.keys() == before
    for lease in leases:
        client.release(lease)


def rights() -> list[str]:
    """The rights for locks, and those that docs/permissions.md adds for looking and acting from outside."""
    page = PAGE.read_text()
    user = re.search(r"^ACL SETUSER .*?(?=^```)", page, flags=re.DOTALL | re.MULTILINE)
    more = re.search(r"^    \+scan .*$", page, flags=re.MULTILINE)
    assert user is not None
    assert more is not None
    return [*user[0].split(), *more[0].split()]


@pytest.mark.parametrize("flavour", FLAVOURS, ids=repr)
def test_nothing_is_found_with_the_smallest_set_of_rights(
    start_server: StartServer, open_client: OpenClient, flavour: Any
) -> None:
    server = start_server(*GOOD, flavour=flavour)
    server.command(*rights(), "-zremrangebyrank")  # which is for the nodes of a quorum alone
    client = open_client(f"redis://locker:secret@127.0.0.1:{server.port}/0")
    lease = client.acquire("a")
    assert findings(client) == []
    operator: Any = client.locks
    assert client.call(lambda: operator.force_release("a", reason="why")) is not None
    assert len(client.call(operator.audit)) == 1
    assert server.command("ACL", "LOG") == []
    with pytest.raises(Exception, match="by force"):
        client.release(lease)


def test_nothing_is_found_in_memory(open_client: OpenClient) -> None:
    assert findings(open_client("memory://doctor")) == []


def test_no_connection(open_client: OpenClient) -> None:
    client = open_client(f"redis://127.0.0.1:{free_port()}/0")
    found = one(client, "UNREACHABLE")
    assert (found.severity, found.node) == (Severity.ERROR, client.locks.place.display)
    assert str(found).startswith("error UNREACHABLE at redis://")
    assert found.as_dict()["severity"] == "error"


def test_a_silent_server(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url)
    client.release(client.acquire("a"))
    proxy.black_hole()
    assert ids(client) == ["UNREACHABLE"]
    proxy.heal()


def test_connections_that_the_server_has_closed_meanwhile_are_replaced(
    good: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(good.url)
    client.release(client.acquire("a"))
    for kind in ("normal", "pubsub"):
        good.command("CLIENT", "KILL", "TYPE", kind)
    assert findings(client) == []


def test_a_login_that_fails(open_client: OpenClient, start_server: StartServer) -> None:
    server = start_server(password="right")
    assert ids(open_client(f"redis://:wrong@127.0.0.1:{server.port}/0")) == ["REFUSED"]
    assert ids(open_client(f"redis://127.0.0.1:{server.port}/0")) == ["REFUSED"]


def test_credentials_that_cannot_be_had(good: RunningServer, open_client: OpenClient) -> None:
    def fail() -> str:
        raise ValueError("the vault is sealed")

    found = one(open_client(good.url, credentials=fail), "REFUSED")
    assert "the vault is sealed" in found.seen


@pytest.mark.parametrize("flavour", FLAVOURS, ids=repr)
@pytest.mark.parametrize(
    ("missing", "named", "severity"),
    [
        (["-hset"], ["hset"], Severity.ERROR),
        (["-zadd", "-zrank"], ["zadd", "zrank"], Severity.ERROR),
        (["-del"], ["del"], Severity.ERROR),
        (["-publish"], ["publish"], Severity.WARNING),
        (["-pubsub"], ["pubsub|numsub"], Severity.WARNING),
        (["-subscribe"], ["subscribe"], Severity.WARNING),
        (["-mget"], ["records"], Severity.WARNING),
        (["-eval", "-evalsha"], ["scripts"], Severity.ERROR),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_right_that_is_missing_is_named(
    start_server: StartServer,
    open_client: OpenClient,
    flavour: Any,
    missing: list[str],
    named: list[str],
    severity: Severity,
) -> None:
    server = start_server(*GOOD, flavour=flavour)
    server.command("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", *missing)
    client = open_client(f"redis://locker:secret@127.0.0.1:{server.port}/0")
    found = findings(client)
    assert {(each.id, each.severity) for each in found} == {("RIGHT_MISSING", severity)}
    for word in named:
        assert any(word in each.seen for each in found), found
    assert "doctor" not in " ".join(server.keys())


@pytest.mark.parametrize("missing", ["info", "config", "scan"])
def test_what_cannot_be_asked_is_not_known(start_server: StartServer, open_client: OpenClient, missing: str) -> None:
    server = start_server()
    server.command("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", f"-{missing}")
    found = [
        each
        for each in findings(open_client(f"redis://locker:secret@127.0.0.1:{server.port}/0"))
        if each.id != "NO_PERSISTENCE"
    ]
    assert [(each.id, each.severity) for each in found] == [("NOT_KNOWN", Severity.NOTE)]
    assert missing in found[0].seen.lower()


def test_a_server_that_does_not_speak_resp3(start_server: StartServer, open_client: OpenClient) -> None:
    server = start_server(*GOOD, "--rename-command", "HELLO", "")
    assert one(open_client(server.url), "RESP2_ONLY").severity is Severity.ERROR
    assert one(open_client(f"{server.url}?protocol=2"), "RESP2_ONLY").severity is Severity.WARNING
    plain = start_server(*GOOD)
    assert ids(open_client(f"{plain.url}?protocol=2")) == ["RESP2_ONLY"]


def test_a_replica_and_its_master(start_server: StartServer, open_client: OpenClient) -> None:
    master = start_server(*GOOD)
    replica = start_server(*GOOD, "--replicaof", "127.0.0.1", str(master.port))
    deadline = time.monotonic() + 30
    while replica.info("replication").get("master_link_status") != "up" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "READ_ONLY" in ids(open_client(replica.url))
    assert ids(open_client(master.url)) == ["ASYNC_REPLICAS"]


def test_eviction_and_full_memory(good: RunningServer, open_client: OpenClient) -> None:
    client = open_client(good.url)
    good.command("CONFIG", "SET", "maxmemory", "1gb")
    assert ids(client) == []
    good.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert ids(client) == ["EVICTION"]
    good.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    used = int(good.info("memory")["used_memory"])
    good.command("CONFIG", "SET", "maxmemory", used + 20_000)
    assert "MEMORY_FULL" in ids(client)
    good.command("CONFIG", "SET", "maxmemory", "0")


def test_almost_too_many_clients(good: RunningServer, open_client: OpenClient) -> None:
    good.command("CONFIG", "SET", "maxclients", "12")
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(good.connect())
        assert ids(open_client(good.url)) == ["CLIENTS_NEAR_LIMIT"]


def test_a_server_that_keeps_nothing(start_server: StartServer, open_client: OpenClient) -> None:
    server = start_server()
    client = open_client(server.url)
    assert ids(client) == ["NO_PERSISTENCE"]
    server.command("CONFIG", "SET", "save", "900 1")
    assert ids(client) == []


def test_a_slow_server(start_server: StartServer, open_client: OpenClient) -> None:
    server = start_server(*GOOD)
    with Proxy(server.port) as proxy:
        client = open_client(proxy.url)
        client.release(client.acquire("a"))
        proxy.delay(replies=0.03)
        assert [each.id for each in client.call(client.locks.doctor)] == ["SLOW"]
        proxy.heal()


def test_a_fence_ahead_of_the_clock(good: RunningServer, open_client: OpenClient) -> None:
    client = open_client(good.url)
    ahead = int((time.time() + 60) * 1e6)
    good.command("SET", "ht:{old}", f"t1-{ahead:016}", "PX", 70_000)
    found = one(client, "FENCE_AHEAD")
    assert "'old'" in found.seen
    assert found.severity is Severity.ERROR


def test_a_lock_that_stays_longer_than_any_ttl(good: RunningServer, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=5, profiles={"slow:*": Profile(ttl=100)})
    lease = client.acquire("a", ttl=100)
    assert ids(client) == []
    client.release(lease)
    lease = client.acquire("a", ttl=300)
    found = one(client, "PTTL_ABOVE_TTL")
    assert "'a'" in found.seen
    client.release(lease)


def test_values_of_another_program(good: RunningServer, open_client: OpenClient) -> None:
    client = open_client(good.url)
    good.command("SET", "ht:{text}", "not a lock")
    good.command("HSET", "ht:{hash}", "a", "b")
    good.command("SET", "ht:{text}:q", "whatever")
    found = one(client, "FOREIGN_KEY")
    assert "and 1 more" in found.seen


def test_a_database_that_others_fill(good: RunningServer, open_client: OpenClient) -> None:
    fill = "for at = 1, 100200 do redis.call('SET', 'other:' .. at, 1) end"
    good.command("EVAL", fill, 0)
    assert ids(open_client(good.url)) == ["SHARED_KEYSPACE"]


def test_ten_thousand_locks_are_looked_at_in_time(good: RunningServer, open_client: OpenClient) -> None:
    take = """for at = 1, 10000 do
      redis.call('SET', 'ht:{n' .. at .. '}', 'x1-' .. string.format('%024.0f', at) .. '1700000000000000', 'PX', 20000)
    end"""
    good.command("EVAL", take, 0)
    assert findings(open_client(good.url)) == []


def test_a_server_whose_clock_is_wrong(
    start_server: StartServer, open_client: OpenClient, shim: Path, tmp_path: Path
) -> None:
    with closing(Clock(tmp_path / "offset")) as clock:
        server = start_stepped(start_server, shim, tmp_path / "offset")
        if not is_reached(server, clock):
            pytest.skip("needs a server that takes its time from the C library: the clock shim does not reach it")
        server.command("CONFIG", "SET", "save", "900 1")
        step(server, clock, 60)
        client = open_client(server.url)
        assert ids(client) == ["CLOCK_OFFSET"]
        client.release(client.acquire("a"))
        step(server, clock, 0)
        assert ids(client) == ["FENCE_AHEAD"]


# What no server here can be brought to


class Said:
    """A server as the plan sees it, with other answers for some requests."""

    first = b"0"

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "clock": 0.0,
            "hello": 3,
            "info": {"redis_version": "7.2.4", "role": "master", "aof_enabled": "1"},
            "size": 0,
            "rights": (True, []),
            "records": True,
            "ping": True,
            "scan": (b"0", 0, []),
            **answers,
        }

    def probes(self) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_step"):
            raise AttributeError(name)
        return lambda *args: Asked(name.removesuffix("_step"))


class Asked:
    patience = 1.0

    def __init__(self, word: str) -> None:
        self.word = word


def judged(said: Said) -> list[str]:
    plan = doctor(Case(["a"], [said], 30.0, 30.0, time.monotonic))
    value: Any = None
    try:
        while True:
            asked: Any = plan.send(value)
            value = said.answers[asked.word]
    except StopIteration as stop:
        return [each.id for each in stop.value]


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({}, []),
        ({"info": {"redis_version": "6.0.16", "role": "master", "aof_enabled": "1"}}, ["OLD_SERVER"]),
        ({"info": {"redis_version": "unstable", "role": "master", "aof_enabled": "1"}}, []),
        ({"clock": -3600.0}, ["CLOCK_OFFSET"]),
    ],
    ids=["good", "old", "unknown version", "clock"],
)
def test_what_a_server_says(answers: dict[str, Any], found: list[str]) -> None:
    assert judged(Said(**answers)) == found
