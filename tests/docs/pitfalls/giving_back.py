"""Scenes for the chapter "Giving it back"."""

from __future__ import annotations

from holdtight import LeaseLost
from tests.docs.pitfalls.world import World
from tests.support.processes import wait_for


def unlocking_without_asking_whose_it_is(world: World) -> bool:
    (first, packing), (second, packing_too), (third, packing_as_well) = world.programs(3, "pack")
    call = first.start("ship", 1)
    packing.wait()
    world.forget()
    assert second.comes_to(packing_too, "ship", 1)
    packing.open()
    call.end(LeaseLost)
    return third.comes_to(packing_as_well, "ship", 1)


def an_owner_that_is_not_unique(world: World) -> bool:
    """The same, but the three are threads of one program."""
    gates = [world.gate() for _ in range(3)]
    turns = iter(gates)
    program = world.program(pack=lambda order: next(turns)())
    call = program.start("ship", 1)
    gates[0].wait()
    world.forget()
    assert program.comes_to(gates[1], "ship", 1)
    gates[0].open()
    call.end(LeaseLost)
    return program.comes_to(gates[2], "ship", 1)


def get_then_del(world: World) -> bool:
    """The lock is lost before the holder begins to give it back; and once more just before it deletes it."""
    return unlocking_without_asking_whose_it_is(world) or _lost_before_del(world)


def _lost_before_del(world: World) -> bool:
    world.forget()
    deleting = world.gate()
    first = world.program(pack=lambda order: None, redis=world.client(world.server.url, DEL=deleting))
    (second, packing), (third, packing_too) = world.programs(2, "pack")
    call = first.start("ship", 1)
    wait_for(lambda: deleting.reached or call.done)
    world.forget()
    assert second.comes_to(packing, "ship", 1)
    deleting.open()
    call.end()
    return third.comes_to(packing_too, "ship", 1)


def no_release_when_something_goes_wrong(world: World) -> bool:
    def pack(order: int) -> None:
        raise OSError("no more boxes")

    world.program(pack=pack).run("ship", 1, tolerate=(OSError,))
    ((second, packing),) = world.programs(1, "pack")
    return not second.comes_to(packing, "ship", 1)
