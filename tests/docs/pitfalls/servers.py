"""Scenes for the chapter "Servers and time"."""

from __future__ import annotations

from holdtight import LockError
from tests.docs.pitfalls.world import Storage, World
from tests.support.processes import wait_for
from tests.support.servers import free_port


def a_replica_that_has_not_heard_of_it(world: World) -> bool:
    primary, replica = world.start_server("--repl-diskless-sync-delay", "0"), world.start_server()
    replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
    wait_for(lambda: replica.info("replication")["master_link_status"] == "up")
    replica.command("REPLICAOF", "127.0.0.1", str(free_port()))  # it is cut off, and keeps what it has heard so far
    mine = world.program(url=primary.url).run("acquire", "me")
    primary.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    return bool(mine and world.program(url=replica.url).run("acquire", "you"))


def persistence_is_not_durability(world: World) -> bool:
    server = world.start_server("--save", "3600 1")
    assert server.command("CONFIG", "GET", "save") == ["save", "3600 1"]
    bank, way = Storage(), world.gate()
    first = world.program(url=server.url, bank=bank.reached_by(way))
    second = world.program(url=server.url, bank=bank.reached_by(lambda: None))
    call = first.start("pay_out", "order 1")
    way.wait()
    server.kill()
    server.restart()
    second.run("pay_out", "order 1")
    way.open()
    call.end(LockError)
    return len(bank.kept) > 1


def a_majority_however_long_it_took(world: World) -> bool:
    servers = [world.server, world.start_server(), world.start_server()]
    nodes = [world.client(server.url) for server in servers]
    first, second = (world.program(nodes=nodes) for _ in range(2))
    servers[2].pause()
    call = first.start("acquire", "first")
    wait_for(lambda: all(servers[number].command("EXISTS", "lock:report") for number in (0, 1)))
    wait_for(lambda: not any(servers[number].command("EXISTS", "lock:report") for number in (0, 1)))
    servers[2].resume()
    return bool(call.end() and second.run("acquire", "second"))


def a_majority_of_those_that_answer(world: World) -> bool:
    """The network is cut: one side has one node, the other side two."""
    urls = [world.server.url, world.start_server().url, world.start_server().url]
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    few = world.program(nodes=[world.client(url) for url in (urls[0], nowhere, nowhere)])
    many = world.program(nodes=[world.client(url) for url in (nowhere, urls[1], urls[2])])
    assert many.run("acquire", "many")
    return bool(few.run("acquire", "few"))
