"""What the place of a cluster does with what its scout learns."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown
from holdtight.base.values import Owner
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.redis import cluster as cluster_module
from holdtight.stores.redis import cluster_node
from holdtight.stores.redis.cluster import ClusterPlace
from holdtight.stores.redis.cluster_node import ClusterNodePlace
from holdtight.stores.redis.rounds import THREAD_NAME
from holdtight.stores.redis.slots import SLOTS, Endpoint, Redirection
from tests.support.processes import wait_for

OLD, NEW = ("127.0.0.1", 7001), ("127.0.0.1", 7002)


class Pausing:
    nudged = 0

    def nudge(self) -> None:
        self.nudged += 1


def learn(place: ClusterPlace, where: Endpoint, *others: Endpoint) -> None:
    place.learn([where] * SLOTS, {where, *others}, asked=float("inf"))


def test_those_that_pause_at_a_dead_server_are_woken_when_another_has_its_slots() -> None:
    """Also if the cluster does not name the dead one any more."""
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, OLD, NEW)
        waiter = Pausing()
        place.at(0).pausing.add(waiter)
        learn(place, NEW)
        assert waiter.nudged
        assert place.at(0).where == NEW


def test_a_failover_is_told_also_if_a_server_says_moved_while_the_nodes_are_asked() -> None:
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place, told = locks.place, list[tuple[str, str]]()
        assert isinstance(place, ClusterPlace)
        place.tell_failover = lambda server, by: told.append((server, by))
        learn(place, OLD, NEW)
        began = boottime()
        place.follow(f"MOVED 0 {NEW[0]}:{NEW[1]}", place.at(0))
        place.learn([OLD] * SLOTS, {OLD, NEW}, asked=began)  # they had answered before the failover
        assert place.at(0).where == NEW
        assert not told
        learn(place, NEW, OLD)
        assert [(server.rpartition(":")[2], by.rpartition(":")[2]) for server, by in told] == [("7001/0", "7002/0")]


def test_a_server_whose_first_slot_is_on_its_way_to_it_is_not_given_up() -> None:
    """ASK names it, and no node does: it has no slots yet."""
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, OLD)
        arriving = place.redirected_to(Redirection(0, NEW, asking=True))
        learn(place, OLD)
        assert arriving.serves
        assert place.redirected_to(Redirection(0, NEW, asking=True)) is arriving, "with the connections that it has"
        learn(place, NEW)
        learn(place, OLD, NEW)
        assert not arriving.serves, "it has lost the slots that it had: a failover"


def test_the_keeper_tries_a_release_until_the_ttl_of_its_lock_has_ended() -> None:
    """The slot may be on its way for as long. The client's own ttl says nothing."""
    with Locks("redis+cluster://127.0.0.1:1", ttl=1) as locks:
        lock = locks.lock("thing", ttl=60)
        owner = locks.place.client.owner()
        for step in (lock.prepared.withdraw_step(owner), lock.prepared.release_step(owner)):
            undo = DeferredUndo(locks.place, step)
            assert undo.deadline - locks.place.clock() > 59
        short = locks.lock("other", ttl=1).prepared.withdraw_step(owner)
        assert DeferredUndo(locks.place, short, ttl=30).deadline - locks.place.clock() > 29, "it was renewed for longer"


def test_the_scout_runs_while_a_connection_to_a_server_that_hangs_is_made() -> None:
    """Nobody else would learn that another server has its slots."""
    with Locks("redis+cluster://127.0.0.1:1") as locks, socket.create_server(("127.0.0.1", 0)) as silent:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, silent.getsockname())
        before = set(threading.enumerate())

        def connect() -> None:
            with suppress(LinkDown):
                place.at(0).open(30)

        connecting = threading.Thread(target=connect)
        connecting.start()
        try:
            wait_for(
                lambda: any(each.name == THREAD_NAME for each in set(threading.enumerate()) - before),
                within=10,
                what="the scout",
            )
            assert connecting.is_alive()
        finally:
            learn(place, NEW)  # ends the attempt
            connecting.join(10)
        assert not connecting.is_alive()


class Kept:
    """A charge of the keeper's about a name in slot 0."""

    home = 0
    alive = True

    def __init__(self, owner: bytes) -> None:
        self.owner = Owner(owner)


def test_a_renewal_that_was_sent_on_to_where_its_slot_is_going_waits_there() -> None:
    """The main key alone does not tell enough, and a request that names all keys must wait until the slot has arrived.
    To send it around between the two servers would end after five redirections, with nothing learned."""
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        learn(place, OLD, NEW)
        target, charge = place.redirected_to(Redirection(0, NEW, asking=True)), Kept(b"a")
        assert target.redirected(charge, "HTWIDE the main key does not hold this grant") is None
        assert not place.wide
        assert place.at(0).redirected(charge, "HTWIDE the main key does not hold this grant") == (place.at(0), b"")
        assert list(place.wide) == [b"a"]


def test_owners_whose_leases_end_before_they_ask_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        for number in range(200):
            monkeypatch.setattr(cluster_module, "boottime", lambda number=number: number / 10)
            place.ask_widely(Owner(b"%d" % number))
        assert len(place.wide) < 50
        assert Owner(b"199") in place.wide


def test_a_server_that_refuses_to_let_us_listen_is_asked_again_later_and_others_all_the_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        refusing, other = place.node(OLD), place.node(NEW)
        place.refused_to_ring("NOPERM User locker has no permissions to run the 'ssubscribe' command", refusing)
        assert (refusing.rings, other.rings) == (False, True)
        later = refusing.silent_until
        monkeypatch.setattr(cluster_node, "boottime", lambda: later)
        assert refusing.rings


class Lost:
    """A link that broke. `node` is the place of its server."""

    closed = False

    def __init__(self, node: ClusterNodePlace) -> None:
        self.node = node

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("how", ["lose", "scrap"])
def test_a_link_that_broke_after_its_slot_had_moved_makes_room_in_the_pool_that_it_came_from(how: str) -> None:
    with Locks("redis+cluster://127.0.0.1:1", max_connections=1) as locks:
        place = locks.place
        assert isinstance(place, ClusterPlace)
        old, new = (place.node(where) for where in (OLD, NEW))
        link = Lost(old)
        old.home.transport._open.add(link)
        words = (link, LinkDown("reset", sent=True)) if how == "lose" else (link,)
        getattr(new.home.transport, how)(*words)
        assert link.closed
        assert not list(old.home.transport._open)


def test_the_homes_of_an_asyncio_client_are_closed_with_it() -> None:
    async def main() -> None:
        locks = AsyncLocks("redis+cluster://127.0.0.1:1")
        home = locks.place.node(OLD).home  # type: ignore[attr-defined]
        home.transport()
        assert not home.closed
        await locks.aclose()
        assert home.closed

    asyncio.run(main())
