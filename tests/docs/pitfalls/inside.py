"""Scenes for the chapter "What stands inside"."""

from __future__ import annotations

import asyncio
import threading

from redis.exceptions import LockError as RedisLockError

from holdtight import AsyncLocks, LockError
from tests.docs.pitfalls.world import Gate, World
from tests.support.processes import wait_for


def taking_your_own_lock_again(world: World) -> bool:
    entries: list[str] = []
    program = world.program(write_entry=lambda: entries.append("entry"))
    program.run("transfer", tolerate=(RedisLockError, LockError))
    return not entries


def a_blocking_lock_in_asyncio(world: World) -> bool:
    packed: list[int] = []

    async def pack(order: int) -> None:
        await asyncio.sleep(0.01)
        packed.append(order)

    async def main() -> None:
        async with AsyncLocks(world.server.url) as async_locks:
            program = world.program(asyncio=asyncio, async_locks=async_locks, pack=pack, wait=20)
            await program.names["ship_all"]()

    asyncio.run(main())
    return len(packed) < 2


def re_entry_without_counting(world: World) -> bool:
    settling, booking = world.gate(), world.gate()
    first = world.program(write_entry=lambda: None, settle=settling)
    second = world.program(write_entry=booking, settle=lambda: None)
    call = first.start("transfer", "first")
    settling.wait()
    came_in = second.comes_to(booking, "transfer", "second")
    settling.open()
    call.end()
    return came_in


def two_locks_in_two_orders(world: World) -> bool:
    """Each has its first lock before either asks for its second, or waits for the other's first."""
    turns = [world.gate(), world.gate()]
    exchanging = [world.gate(), world.gate()]
    programs = [world.program(exchange=gate, wait=20) for gate in exchanging]
    for program, turn in zip(programs, turns, strict=True):
        _pause_after_the_first_lock(program.names, turn)
    calls = [programs[0].start("move", "a", "b")]
    turns[0].wait()
    calls.append(programs[1].start("move", "b", "a"))
    wait_for(lambda: turns[1].reached or world.waiting("a"))
    for turn in turns:
        turn.open()
    wait_for(lambda: any(gate.reached for gate in exchanging) or world.waiting("a") + world.waiting("b") == 2)
    stuck = not any(gate.reached for gate in exchanging)
    if stuck:
        world.forget()  # the only way out, and not a good one
    for gate in exchanging:
        gate.open()
    for call in calls:
        call.end(LockError)
    return stuck


def _pause_after_the_first_lock(names: dict[str, object], turn: Gate) -> None:
    locks, asked = names["locks"], threading.Event()

    class Paused:
        def lock(self, name: str) -> object:
            if asked.is_set():
                turn()
            asked.set()
            return locks.lock(name)  # type: ignore[attr-defined]

    names["locks"] = Paused()


def one_lock_for_everything(world: World) -> bool:
    (first, packing), (second, packing_too) = world.programs(2, "pack", wait=20)
    calls = [first.start("ship", 1)]
    packing.wait()
    calls.append(second.start("ship", 2))
    wait_for(lambda: packing_too.reached or world.waiting("orders"))
    waited = not packing_too.reached
    for gate, call in zip((packing, packing_too), calls, strict=True):
        gate.open()
        call.end()
    return waited


def work_that_has_not_begun(world: World) -> bool:
    (first, fetching), (second, fetching_too) = world.programs(2, "fetch", write=lambda row: None)
    call = first.start("export")
    fetching.wait()
    came_in = second.comes_to(fetching_too, "export")
    fetching.open()
    call.end()
    return came_in


def slow_work_under_the_lock(world: World) -> bool:
    fetching = world.gate()
    slow = world.program(fetch_rate=fetching, store=lambda rate: None, wait=20)
    quick = world.program(fetch_rate=lambda: 1.1, store=lambda rate: None, wait=20)
    calls = [slow.start("update_rate")]
    fetching.wait()
    calls.append(quick.start("update_rate"))
    wait_for(lambda: calls[1].done or world.waiting("rate"))
    waited = not calls[1].done
    fetching.open()
    for call in calls:
        call.end()
    return waited


def the_lock_inside_the_transaction(world: World) -> bool:
    shop = world.database()
    shop.execute("PRAGMA journal_mode = WAL")
    shop.execute("CREATE TABLE stock AS SELECT 10 AS units")
    committing, has_read = world.gate(), threading.Event()
    first = world.program(shop=world.database(("COMMIT", committing), autocommit=False), wait=20)
    second = world.program(shop=world.database(("UPDATE", has_read.set), autocommit=False), wait=20)
    calls = [first.start("sell")]
    committing.wait()
    calls.append(second.start("sell"))
    wait_for(lambda: has_read.is_set() or world.waiting("stock"))
    committing.open()
    for call in calls:
        call.end()
    (units,) = shop.execute("SELECT units FROM stock").fetchone()
    return bool(units != 8)
