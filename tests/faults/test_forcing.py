"""Releasing by force when something breaks: lost replies, no rights, a full server."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from functools import partial
from typing import Any

import pytest

from holdtight import AuditRecord, LossReason, NotPermitted, ScriptError, Unavailable
from holdtight.stores.redis.forcing import FORCE
from tests.faults.clients import Client, OpenClient, asks, start, waiting
from tests.faults.forcing import audit, force, is_lost
from tests.support.busy import Delay
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import FLAVOURS, RunningServer

EVERY_FLAVOUR = pytest.mark.parametrize("private_server", FLAVOURS, ids=repr, indirect=True)


@EVERY_FLAVOUR
@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
def test_a_lost_reply_costs_one_asking_and_neither_a_second_holder_nor_a_second_record(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    private_server.command("SCRIPT", "LOAD", FORCE.body)
    holder, operator = open_client(private_server.url, ttl=20), open_client(proxy.url)
    lease = holder.acquire("a")
    waiter = start(lambda: holder.acquire("a", wait=20))
    wait_for(lambda: waiting(private_server, "a") == 1)
    lost = proxy.swallow_reply(asks(FORCE), cut=cut)
    record = force(operator)
    lost.wait()
    following = waiter.result(10)
    assert record is not None
    assert [each.owner for each in record.holders] == [lease.owner]
    assert record.next == following.owner
    assert lease.fence < record.fence < following.fence
    assert audit(operator) == [record]
    assert holder.try_acquire("a") is None, "the next holder was not hit"
    holder.release(following)
    is_lost(holder, lease)


def test_a_holder_that_was_renewed_is_told_within_0_4_seconds(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    holder, operator = open_client(private_server.url), open_client(private_server.url)
    leases: list[Any] = [holder.acquire(name, ttl=60) for name in "abc"]
    for lease in leases:
        holder.call(lease.renew)
    for lease, name in zip(leases, "abc", strict=True):
        delay, since = Delay(os.getpid(), private_server.pid), time.monotonic()
        assert force(operator, name) is not None
        delay.check(partial(getattr, lease, "reason"), since, within=0.4, what="the holder to be told")
        is_lost(holder, lease)


def test_a_lost_request_is_asked_again(private_server: RunningServer, proxy: Proxy, open_client: OpenClient) -> None:
    holder, operator = open_client(private_server.url), open_client(proxy.url)
    lease = holder.acquire("a")
    proxy.swallow_request(b"force_release")
    record = force(operator)
    assert record is not None
    assert audit(operator) == [record]
    is_lost(holder, lease)


def test_a_silent_server_is_unavailable(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url)
    client.release(client.acquire("a"))
    proxy.black_hole()
    with pytest.raises(Unavailable):
        force(client)
    proxy.heal()


@EVERY_FLAVOUR
@pytest.mark.parametrize("missing", ["xadd", "xlen", "evalsha"])
def test_without_the_right_to_it_nothing_changes(
    private_server: RunningServer, open_client: OpenClient, missing: str
) -> None:
    words = ["+@all", f"-{missing}", *(["-eval"] if missing == "evalsha" else [])]
    private_server.command("ACL", "SETUSER", "operator", "on", ">secret", "~*", "&*", *words)
    holder = open_client(private_server.url)
    operator = open_client(f"redis://operator:secret@127.0.0.1:{private_server.port}/0")
    lease = holder.acquire("a")
    before = private_server.command("GET", "ht:{a}")
    with pytest.raises(NotPermitted):
        force(operator)
    assert private_server.command("GET", "ht:{a}") == before
    assert private_server.command("EXISTS", "ht:audit") == 0
    holder.release(lease)


@EVERY_FLAVOUR
@pytest.mark.parametrize("unread", [[], ["waits"], ["client"], ["waits", "client"]], ids="-".join)
def test_an_operator_without_the_right_to_records_forces_and_names_what_it_may_read(
    private_server: RunningServer, open_client: OpenClient, unread: list[str]
) -> None:
    holder = open_client(private_server.url, ttl=20)
    operator = open_client(f"redis://operator:secret@127.0.0.1:{private_server.port}/0")
    lease = holder.acquire("a")
    text = "o" * 24 + json.dumps(["desk", "me", None])
    private_server.command("SET", f"ht:waits:{lease.owner}", text, "PX", 60_000)
    may = [f"~ht:{each}" for each in ["{*", "audit", *({"client:*", "waits:*"} - {f"{each}:*" for each in unread})]]
    private_server.command("ACL", "SETUSER", "operator", "on", ">secret", "&*", "+@all", *may)
    record = force(operator)
    assert record is not None
    (told,) = record.holders
    assert (told.host, told.pid) == ((None, None) if "client" in unread else (socket.gethostname(), os.getpid()))
    assert told.waits_for == (None if unread else "desk")
    assert audit(operator) == [record]
    is_lost(holder, lease)


@EVERY_FLAVOUR
def test_a_server_out_of_memory_does_it_all_the_same(private_server: RunningServer, open_client: OpenClient) -> None:
    holder, operator = open_client(private_server.url, ttl=20), open_client(private_server.url)
    lease = holder.acquire("a")
    waiter = start(lambda: holder.acquire("a", wait=20))
    wait_for(lambda: waiting(private_server, "a") == 1)
    assert audit(operator) == []
    private_server.command(
        "CONFIG",
        "SET",
        "maxmemory-policy",
        "noeviction",
    )
    private_server.command("CONFIG", "SET", "maxmemory", "1")
    record = force(operator)
    private_server.command("CONFIG", "SET", "maxmemory", "0")
    following = waiter.result(10)
    assert record is not None
    assert lease.fence < record.fence < following.fence
    assert audit(operator) == [record]
    holder.release(following)
    is_lost(holder, lease)


@EVERY_FLAVOUR
@pytest.mark.parametrize("key", ["ht:audit", "ht:{a}:q", "ht:{a}:h"])
def test_a_key_of_another_program_is_not_touched(
    private_server: RunningServer, open_client: OpenClient, key: str
) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a")
    private_server.command("SET", key, "precious")
    before = private_server.command("GET", "ht:{a}")
    with pytest.raises(ScriptError):
        force(client)
    assert private_server.command("GET", "ht:{a}") == before
    assert private_server.command("GET", key) == "precious"
    private_server.command("DEL", key)
    client.release(lease)


def test_a_replica_takes_no_orders(private_server: RunningServer, open_client: OpenClient) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a")
    private_server.command("CONFIG", "SET", "replica-serve-stale-data", "yes")
    private_server.command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(Unavailable, match="READONLY"):
        force(client)
    private_server.command("REPLICAOF", "NO", "ONE")
    client.release(lease)


def test_many_readers_are_all_forced_and_told(private_server: RunningServer, open_client: OpenClient) -> None:
    client = open_client(private_server.url, ttl=6)
    book = client.locks.rwlock("book")
    readers = [client.call(book.read().acquire) for _ in range(300)]
    record = force(client, "book")
    assert record is not None
    assert {each.owner for each in record.holders} == {reader.owner for reader in readers}
    wait_for(lambda: all(reader.lost for reader in readers))
    assert {reader.reason for reader in readers} == {LossReason.FORCED}
    for reader in readers:
        is_lost(client, reader)


def test_the_waiters_find_out_that_dead_ones_stand_before_them(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    """More dead waiters than one script sweeps: the plan goes on until the first live one has it."""
    client = open_client(private_server.url, ttl=20)
    lease = client.acquire("a")
    entry = "x-" + "0" * 13 + "000020000" + "0" * 13 + "00"
    for number in range(700):
        private_server.command("ZADD", "ht:{a}:q", number, f"{number:024}")
        private_server.command("HSET", "ht:{a}:w", f"{number:024}", entry)
    private_server.command("PEXPIRE", "ht:{a}:q", 60_000)
    private_server.command("PEXPIRE", "ht:{a}:w", 60_000)
    private_server.command("SET", "ht:{a}", _flagged(private_server), "KEEPTTL")
    waiter = start(lambda: client.acquire("a", wait=20))
    wait_for(lambda: waiting(private_server, "a") == 701)
    begun = time.monotonic()
    assert force(client) is not None
    following = waiter.result(10)
    assert time.monotonic() - begun < 3
    client.release(following)
    is_lost(client, lease)


def _flagged(server: RunningServer) -> bytes:
    raw = str(server.command("GET", "ht:{a}")).encode("utf-8", "surrogateescape")
    return raw[:2] + b"q" + raw[3:]


def test_what_was_forced_while_its_holder_was_cut_off_is_known_when_it_comes_back(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    holder, operator = open_client(proxy.url, ttl=9), open_client(private_server.url)
    lease = holder.acquire("a")
    proxy.black_hole()
    assert force(operator) is not None
    following = operator.acquire("a", wait=5)
    proxy.heal()
    wait_for(lambda: lease.lost, within=12)
    assert lease.reason is LossReason.FORCED
    operator.release(following)


def test_notes_about_forced_grants_do_not_pile_up(private_server: RunningServer, open_client: OpenClient) -> None:
    """A name in constant use keeps its hash: the sweep of litter takes the notes away when they have lapsed."""
    client = open_client(private_server.url)
    keep = client.acquire("a", ttl=60)
    for number in range(50):
        owner = f"{number:024}"
        note = f"{1:013}{number:016}{number:016}{number:016}" + "0" * 32
        private_server.command("HSET", "ht:{a}:w", f"k{owner}", note)
    fresh = "9999999999999" + "1" * 80
    private_server.command("HSET", "ht:{a}:w", "k" + "f" * 24, fresh)
    private_server.command("PEXPIRE", "ht:{a}:w", 600_000)

    def swept() -> bool:
        client.call(lambda: keep.renew(60))  # type: ignore[attr-defined]
        client.call(lambda: keep.renew(59))  # type: ignore[attr-defined]
        return int(private_server.command("HLEN", "ht:{a}:w")) < 6

    wait_for(swept)
    assert private_server.command("HGET", "ht:{a}:w", "k" + "f" * 24) == fresh
    client.release(keep)


def force_with_others(operator: Client, gate: threading.Barrier) -> AuditRecord | None:
    gate.wait(10)
    return force(operator)


def test_many_who_force_at_once_hit_each_holder_once(private_server: RunningServer, open_client: OpenClient) -> None:
    """Each holder is in one record: nobody forces what another has already forced."""
    holder, operators = open_client(private_server.url, ttl=20), [open_client(private_server.url) for _ in range(4)]
    fences: list[int] = []
    for _ in range(10):
        lease = holder.acquire("a")
        fences.append(lease.fence)
        gate = threading.Barrier(len(operators))

        acts = [start(partial(force_with_others, operator, gate)) for operator in operators]
        found = [act.result(20) for act in acts]
        (record,) = [each for each in found if each is not None]
        fences.append(record.fence)
        is_lost(holder, lease)
    assert fences == sorted(set(fences))
    assert len(audit(holder)) == 10
