"""Every scenario × colour × kind × server flavour, the memory store among them.

`real_server("why")` marks scenarios that only a real server can show, `locks_only("why")` those that are not for
permits, `no_cohort("why")` those that a lock with cohort=True answers otherwise. Scenarios that no server decides run
in memory alone (`test_wrong_input.py`). Kinds that differ from the exclusive lock only by their scripts run on one real
server or in memory, and event loops with the exclusive lock on one real server; the other servers play one colour each.
`make faults` runs all combinations, and every scenario with cohort=True (test_cohort.py has what is special about
that). `make test` plays scenarios that last for seconds, `takes_time`, with the exclusive lock, on one server and in
memory.
"""

import inspect

import pytest

from holdtight.clients import cohort_line
from tests.scenarios.colours import COLOURS, Colour
from tests.scenarios.world import KINDS, World
from tests.support.memory import MEMORY, MemoryStore
from tests.support.sentinels import SENTINEL
from tests.support.servers import FLAVOURS, RunningServer

NOT_ON_SENTINEL = {"test_connecting.py"}
"""Its scenarios are about the URLs of one server."""
ALWAYS_ON_SENTINEL = {"test_taking.py"}
"""In `make test`; the other scenarios are played on Sentinel in `make faults`."""


ONCE = {"exclusive", "cohort"}


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
        other = item.get_closest_marker("no_cohort")
        assert other is None or other.args, "no_cohort needs a reason"
        if kind == "cohort" and other is not None:
            continue
        # A write lock is the very claim of the exclusive lock.
        here = (MEMORY,) if kind == "write" else (FLAVOURS[0], MEMORY)
        where = given.get("shared_server")
        if where is None:  # no server, so nothing to repeat
            kept.append(item)
            continue
        if where is SENTINEL:
            if item.path.name not in NOT_ON_SENTINEL:
                if item.path.name not in ALWAYS_ON_SENTINEL or kind != "exclusive" or given.get("colour") == "uvloop":
                    item.add_marker(pytest.mark.long)
                kept.append(item)
            continue
        if item.get_closest_marker("takes_time") and (where not in (FLAVOURS[0], MEMORY) or kind not in ONCE):
            item.add_marker(pytest.mark.long)
        if where in FLAVOURS[1:] and given.get("colour") != ("asyncio" if where == FLAVOURS[1] else "sync"):
            item.add_marker(pytest.mark.long)  # both colours send the same requests
        other_loop = given.get("colour") == "uvloop" and (kind != "exclusive" or where != FLAVOURS[0])
        if given.get("kind") == "cohort" or other_loop or (kind != "exclusive" and where not in here):
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
    """Scenarios are coroutines; their world runs them."""
    world = pyfuncitem.funcargs.get("world")
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or not isinstance(world, World):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    world.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window does not close while a test runs, however busy the machine is."""
    monkeypatch.setattr(cohort_line, "WINDOW", 100.0)
