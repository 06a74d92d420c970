"""Scenes for the chapter "While you hold it"."""

from __future__ import annotations

import threading
import time

from redis.exceptions import LockError as RedisLockError

from holdtight import LeaseLost, LockError, StaleFence
from holdtight.events import Lost
from tests.docs.pitfalls.world import Storage, World

TTL = 0.8


def a_ttl_that_is_shorter_than_the_work(world: World) -> bool:
    return _another_gets_in(world)


def a_watchdog_that_comes_too_late(world: World) -> bool:
    return _another_gets_in(world)


def _another_gets_in(world: World) -> bool:
    """Whether another gets in while the first works, within twice the longest ttl of the page."""
    (first, writing), (second, writing_too) = world.programs(2, "write_report", ttl=TTL)
    call = first.start("build")
    writing.wait()
    until = time.monotonic() + 2 * TTL
    while time.monotonic() < until and not second.comes_to(writing_too, "build"):
        time.sleep(0.02)
    writing.open()
    outcome = call.end(LeaseLost)
    return writing_too.reached or isinstance(outcome, LeaseLost)


def not_asking_whether_it_is_still_yours(world: World) -> bool:
    lost = threading.Event()
    sent: list[str] = []
    ((second, sending),) = world.programs(1, "send")

    def send(letter: str) -> None:
        sent.append(letter)
        if letter == "a":
            world.forget()
            assert second.comes_to(sending, "send_all", "xyz")
            lost.wait(TTL)  # a third of the ttl and a moment, where a holder is told

    first = world.program(send=send, ttl=TTL)
    first.locks.events.subscribe(lambda event: lost.set() if isinstance(event, Lost) else None)
    first.run("send_all", "abc", tolerate=(LeaseLost, RedisLockError))
    return sent != ["a"]


def it_was_yours_a_moment_ago(world: World) -> bool:
    storage, way = Storage(), world.gate()
    first = world.program(storage=storage.reached_by(way))
    call = first.start("save", "old")
    way.wait()
    world.forget()
    world.program(storage=storage.reached_by(lambda: None)).run("save", "new")
    way.open()
    call.end(LeaseLost, StaleFence)
    return storage.kept[-1] == "old"


def the_fence_asked_for_too_late(world: World) -> bool:
    bank = world.database()
    bank.execute("CREATE TABLE account AS SELECT 100 AS balance, 0 AS fence")
    gates = [world.gate(), world.gate()]
    programs = [world.program(bank=world.database(("UPDATE account SET balance", gate))) for gate in gates]
    calls = []
    for program, gate, amount in zip(programs, gates, (10, 50), strict=True):
        calls.append(program.start("pay_in", amount))
        gate.wait()
        world.forget()
    due = 100
    for gate, call, amount in zip(gates, calls, (10, 50), strict=True):
        gate.open()
        if not isinstance(call.end(LockError), StaleFence):
            due += amount
    (balance,) = bank.execute("SELECT balance FROM account").fetchone()
    return bool(balance != due)
