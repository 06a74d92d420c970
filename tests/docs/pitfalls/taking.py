"""Scenes for the chapter "Taking a lock"."""

from __future__ import annotations

import time
from types import SimpleNamespace

from holdtight import Lease
from tests.docs.pitfalls.children import start_child
from tests.docs.pitfalls.world import World
from tests.support.processes import wait_for


def a_lock_in_every_process(world: World) -> bool:
    gates = ("shop.read_stock", "shop.write_stock")
    children = [start_child(world, "sell", gates=gates) for _ in range(2)]
    return [child.wait_line() for child in children] == ["at shop.read_stock"] * 2


def setnx_then_expire(world: World) -> bool:
    child = start_child(world, "nightly", gates=("run_job",), dies_before="EXPIRE")
    if child.next_line() is not None:
        child.kill()
    child.wait()
    return locked_for_ever(world)


def no_expiry(world: World) -> bool:
    child = start_child(world, "nightly", gates=("run_job",))
    child.expect("at run_job")
    child.kill()
    return locked_for_ever(world)


def locked_for_ever(world: World) -> bool:
    keys = world.server.keys()
    assert keys, "there was no lock at all"
    return any(world.server.command("PTTL", key) == -1 for key in keys)


def getset_to_take_a_lock(world: World) -> bool:
    program = world.program()
    held = program.run("acquire", "first")
    assert held
    assert not program.run("acquire", "second")
    program.run("release", held)
    third = program.run("acquire", "third")
    if third:
        program.run("release", third)
    return not third


def the_client_s_clock(world: World) -> bool:
    fast_clock = SimpleNamespace(time=lambda: time.time() + 60)
    mine = world.program().run("acquire", 30)
    assert mine
    theirs = world.program(time=fast_clock).run("acquire", 30)
    for each in (mine, theirs):
        if isinstance(each, Lease):
            each.release()
    return bool(theirs)


def data_in_the_lock_s_key(world: World) -> bool:
    world.program().run("place", 42, {"article": "lamp"})
    expiring = [key for key in world.server.keys("order:*") if world.server.command("PTTL", key) != -1]
    wait_for(lambda: not any(world.server.command("EXISTS", key) for key in expiring))
    return world.server.command("GET", "order:42") is None


def looking_again_and_again(world: World) -> bool:
    asleep, printing = [world.gate() for _ in range(3)], [world.gate() for _ in range(3)]
    programs = [
        world.program(use_printer=gate, time=SimpleNamespace(sleep=sleep), wait=20)
        for gate, sleep in zip(printing, asleep, strict=True)
    ]
    calls = [programs[0].start("print_page")]
    printing[0].wait()
    calls.append(programs[1].start("print_page"))
    wait_for(lambda: asleep[1].reached or world.waiting("printer"))
    printing[0].open()
    calls[0].end()
    calls.append(programs[2].start("print_page"))
    wait_for(lambda: any(gate.reached for gate in printing[1:]))
    overtaken = printing[2].reached
    for gate in (*printing, *asleep):
        gate.open()
    for call in calls:
        call.end()
    return overtaken
