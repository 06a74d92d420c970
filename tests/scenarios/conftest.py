"""Every scenario × colour × kind × server flavour, the memory store among them.

What only a real server can show is marked `real_server("why")`, what is not for permits `locks_only("why")`. What no
server decides is played in memory alone (`test_wrong_input.py`). The kinds that differ from the exclusive lock by their
scripts alone are played on one real server or in memory, and what differs by its event loop alone with the exclusive
lock on one real server; everywhere else by `make faults`.
"""

import inspect

import pytest

from tests.scenarios.colours import COLOURS, Colour
from tests.scenarios.world import KINDS, World
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        kind = given.get("kind", "exclusive")
        mark = item.get_closest_marker("locks_only")
        assert mark is None or mark.args, "locks_only needs a reason"
        if kind == "permit" and mark is not None:
            continue
        # A write lock is the very claim of the exclusive lock.
        here = (MEMORY,) if kind == "write" else (FLAVOURS[0], MEMORY)
        where = given.get("shared_server")
        if where is None:  # no server, so nothing to repeat
            kept.append(item)
            continue
        other_loop = given.get("colour") == "uvloop" and (kind != "exclusive" or where != FLAVOURS[0])
        if other_loop or (kind != "exclusive" and where not in here):
            item.add_marker(pytest.mark.long)
        kept.append(item)
    items[:] = kept


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(server: RunningServer | MemoryStore, kind: str, colour: Colour) -> World:
    return World(colour, kind, server)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Scenarios are coroutines, and it is their world that runs them."""
    world = pyfuncitem.funcargs.get("world")
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or not isinstance(world, World):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    world.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
