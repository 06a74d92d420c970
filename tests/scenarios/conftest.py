"""Every scenario × colour × kind × server flavour, the memory store among them.

What only a real server can show is marked `real_server("why")`.
"""

import inspect

import pytest

from tests.scenarios.colours import COLOURS, Colour
from tests.scenarios.world import KINDS, World
from tests.support.memory import MemoryStore
from tests.support.servers import RunningServer


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
