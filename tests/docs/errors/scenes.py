"""Each error of docs/errors.md: a scene prepares the situation, and runs the code of its section in it.

A scene is called like its code. The code on the page prints the errors that it meets, and those are what the page must
show. It uses a real server.
"""

from __future__ import annotations

import base64
import pickle
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeAlias

import holdtight
from holdtight import Lease, Locks
from tests.docs.errors.page import SECTIONS
from tests.support.processes import spawn, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import VALKEY_9, RunningServer, StartServer

ADDRESS = "localhost:6379"
NAMES = {name: getattr(holdtight, name) for name in holdtight.__all__}


class Stage:
    """All that it starts ends with it."""

    def __init__(self, title: str, start_server: StartServer, stack: ExitStack) -> None:
        self.block = SECTIONS[title].code
        self._start_server, self._stack = start_server, stack
        self.server = self.start_server()
        self.printed: list[BaseException] = []
        self.names: dict[str, Any] = {}

    def start_server(self) -> RunningServer:
        """Starts a server of one flavour: messages quote the server, and flavours use different words."""
        return self._start_server(flavour=VALKEY_9)

    def open(self, target: str | list[str] | None = None, **settings: Any) -> Locks:
        return self._stack.enter_context(Locks(target or self.server.url, **settings))

    def keep(self, thing: Any) -> Any:
        return self._stack.enter_context(thing)

    def run(self, locks: Locks | None = None, **names: Any) -> None:
        """What the block calls and does not define is in `names`; what is missing there does nothing."""
        self.names = {**NAMES, "locks": locks or self.open(), "print": self._print, **names}
        exec(
            compile(self.block.replace(ADDRESS, f"127.0.0.1:{self.server.port}"), "docs/errors.md", "exec"), self.names
        )

    def _print(self, *things: object) -> None:
        self.printed += [thing for thing in things if isinstance(thing, BaseException)]


Scene: TypeAlias = Callable[[Stage], None]


def lock_timeout(stage: Stage) -> None:
    with stage.open(label="checkout").lock("order:42"):
        stage.run(ship_order=_never)


def watchdog_renewal_failed(stage: Stage) -> None:
    shipped: list[str] = []

    def ship(parcel: str) -> None:
        shipped.append(parcel)
        _robbed(stage, "order:42")

    stage.run(stage.open(ttl=3), parcels=["lamp", "table"], ship=ship)
    assert shipped == ["lamp"]


def unlock_failed(stage: Stage) -> None:
    looked_at: list[int] = []
    stage.run(
        ship_order=lambda number: wait_for(lambda: stage.names["lease"].lost),
        look_at_order=looked_at.append,
    )
    assert looked_at == [42]


def connection_lost(stage: Stage) -> None:
    said: list[str] = []
    locks = stage.open(connect_timeout=0.2)
    locks.lock("order:42").acquire().release()
    stage.server.kill()
    stage.run(locks, ship_order=_never, answer=said.append)
    assert said == ["try again in a minute"]


def not_permitted(stage: Stage) -> None:
    stage.server.add_user("locker", "secret", "~ht:*", "&ht:*", "+@all")
    stage.run()


def quorum_not_reached(stage: Stage) -> None:
    nodes = [stage.server, stage.start_server(), stage.start_server()]
    locks = stage.open([node.url for node in nodes])
    locks.bless()
    for node in nodes[1:]:
        node.kill()
    stage.run(locks, ship_order=_never)


def clock_drift(stage: Stage) -> None:
    """The process is paused while the server's grant is in flight."""
    with Proxy(stage.server.port) as proxy, spawn(_run_alone, stage.block, proxy.url) as child:
        child.expect("ready")
        held = proxy.hold_reply(b"EVALSHA")
        child.send("go")
        held.wait()
        child.pause()
        held.release()
        wait_for(lambda: not _holders(stage, "report"))  # the ttl is over
        child.resume()
        stage.printed.append(pickle.loads(base64.b64decode(child.wait_line())))
        child.expect("report built")


def _run_alone(block: str, url: str) -> None:
    def say(error: BaseException) -> None:
        print(base64.b64encode(pickle.dumps(error)).decode(), flush=True)

    with Locks(url) as locks:
        locks.lock("other").acquire().release()  # connected, and the scripts are known
        print("ready", flush=True)
        input()
        names = {**NAMES, "locks": locks, "print": say, "build_report": partial(print, "report built", flush=True)}
        exec(compile(block, "docs/errors.md", "exec"), names)


def out_of_memory(stage: Stage) -> None:
    locks = stage.open()
    locks.lock("other").acquire().release()
    stage.server.command("CONFIG", "SET", "maxmemory", "1")
    stage.run(locks, ship_order=_never)


def script_error(stage: Stage) -> None:
    stage.server.command("LPUSH", "ht:{stock}", "not a lock of ours")
    stage.run()
    assert stage.server.command("LRANGE", "ht:{stock}", "0", "-1") == ["not a lock of ours"]


def deadlock(stage: Stage) -> None:
    """Chance decides which of the two threads gives up: plays until it is the one that the page shows."""
    locks = stage.open(deadlock_after=0.05)
    for _ in range(30):
        both = threading.Barrier(2)
        stage.printed.clear()
        stage.run(locks, meanwhile=both.wait, move_money=lambda: None)
        transfer = stage.names["transfer"]
        threads = [threading.Thread(target=transfer, args=pair) for pair in (("a", "b"), ("b", "a"))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if stage.printed[1].name == "b":  # type: ignore[attr-defined]
            return
    raise AssertionError("thirty times the same thread")


def queue_full(stage: Stage) -> None:
    locks = stage.open(max_waiters=1)
    turned_away: list[int] = []
    lock = locks.lock("order:42")
    waiter = threading.Thread(target=lambda: lock.acquire().release())
    with lock.hold():  # by another client, so that this thread may ask for it too
        waiter.start()
        wait_for(lambda: lock.inspect().waiting == 1)
        stage.run(locks, ship_order=_never, turn_away=turned_away.append)
    waiter.join()
    assert turned_away == [42]


def concurrent_modification(stage: Stage) -> None:
    def pack() -> None:
        stage.names["shelf"].claim(_robbed(stage, "shelf"))

    stage.run(stage.open(ttl=3), pack=pack)
    assert stage.names["shelf"].units == 100


def wrong_transaction(stage: Stage) -> None:
    conn = stage.keep(closing(sqlite3.connect(":memory:")))
    conn.execute("CREATE TABLE visits (number INTEGER)")
    conn.execute("CREATE TABLE stock (sku INTEGER, units INTEGER)")
    stage.run(conn=conn)


def job_skipped(stage: Stage) -> None:
    stage.run()


def flight_failed(stage: Stage) -> None:
    stage.run()


def not_supported(stage: Stage) -> None:
    stage.run()


def errors_without_a_code(stage: Stage) -> None:
    stage.run()


def _robbed(stage: Stage, name: str) -> int:
    """The server forgets, another takes the lock, the holder's keeper finds out. Returns the other's fence."""
    stage.server.flushall()
    other: Lease = stage.keep(stage.open().lock(name).hold())
    wait_for(lambda: stage.names["lease"].lost)
    return other.fence


def _holders(stage: Stage, name: str) -> int:
    with Locks(stage.server.url) as locks:
        return len(locks.inspect(name).holders)


def _never(*args: object) -> None:
    raise AssertionError("this must not run without the lock")
