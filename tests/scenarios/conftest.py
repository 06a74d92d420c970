"""Every scenario × colour × kind × server flavour, the memory store among them.

`real_server("why")` marks scenarios that only a real server can show, `locks_only("why")` those that are not for
permits, `no_cohort("why")` those that a lock with cohort=True answers otherwise; `played(kind=["exclusive"])` names the
only servers, kinds or colours for a scenario. Scenarios that no server decides run
in memory alone (`test_wrong_input.py`). Kinds that differ from the exclusive lock only by their scripts run on one real
server or in memory, and event loops with the exclusive lock on one real server; the other servers play one colour each.
`make faults` runs all combinations, and every scenario with cohort=True (test_cohort.py has what is special about
that). `make test` plays scenarios that last for seconds, `takes_time`, with the exclusive lock, on one server and in
memory; on a cluster it plays every other scenario, in one colour.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from holdtight.clients import cohort_line
from tests.scenarios.colours import COLOURS, Colour
from tests.scenarios.world import KINDS, World
from tests.support.clusters import CLUSTER
from tests.support.lending import Shared, lent
from tests.support.memory import MEMORY
from tests.support.sentinels import SENTINEL
from tests.support.servers import FLAVOURS

NOT_ON_SENTINEL = {"test_connecting.py"}
"""Its scenarios are about the URLs of one server."""
ALWAYS_ON_SENTINEL = {"test_taking.py"}
"""In `make test`; the other scenarios are played on Sentinel in `make faults`."""


NOT_ON_A_CLUSTER = {"test_connecting.py"}
"""Its scenarios are about the URLs of one server."""
ONCE = {"exclusive", "cohort"}
AXES = ("server", "kind", "colour")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Plays a scenario in every combination that the rules above allow. Combinations for `make faults` are not even
    collected by `make test`: there are more of them than of all other tests."""
    named = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    axes = [axis for axis in AXES if axis in metafunc.fixturenames and axis not in named]
    if not axes:
        return
    for word in ("real_server", "locks_only", "no_cohort"):
        mark = metafunc.definition.get_closest_marker(word)
        assert mark is None or mark.args, f"{word} needs a reason"
    without_long = metafunc.config.option.markexpr == "not long"
    short, all_of_them = [], []
    for given in itertools.product(*(_values(metafunc, axis) for axis in axes)):
        combination = dict(zip(axes, given, strict=True))
        if not _is_possible(metafunc, combination):
            continue
        long = _is_long(metafunc, combination)
        name = "-".join(map(str, given))
        case = pytest.param(*given, id=name, marks=[pytest.mark.long] if long else [])
        all_of_them.append(case)
        if not long:
            short.append(case)
    metafunc.parametrize(axes, short if without_long and short else all_of_them, indirect=True)


def _names(names: str | Sequence[str]) -> list[str]:
    return names.replace(",", " ").split() if isinstance(names, str) else list(names)


def _values(metafunc: pytest.Metafunc, axis: str) -> Sequence[Any]:
    for mark in metafunc.definition.iter_markers("played"):
        if axis in mark.kwargs:
            chosen: Sequence[Any] = mark.kwargs[axis]
            return chosen
    if axis == "server":
        everywhere = "world" in metafunc.fixturenames and not metafunc.definition.get_closest_marker("real_server")
        return (*FLAVOURS, MEMORY, SENTINEL, CLUSTER) if everywhere else FLAVOURS
    return list(KINDS if axis == "kind" else COLOURS)


def _is_possible(metafunc: pytest.Metafunc, given: dict[str, Any]) -> bool:
    kind, test = given.get("kind"), metafunc.definition
    if kind == "permit" and test.get_closest_marker("locks_only"):
        return False
    if kind == "cohort" and test.get_closest_marker("no_cohort"):
        return False
    if given.get("server") is CLUSTER and (test.path.name in NOT_ON_A_CLUSTER or _counts_requests(metafunc.function)):
        return False
    return given.get("server") is not SENTINEL or test.path.name not in NOT_ON_SENTINEL


@cache
def _counts_requests(scenario: Callable[..., object]) -> bool:
    """A cluster has several servers, and no one proxy in front of them."""
    source = inspect.getsource(scenario)
    return ".tap()" in source or ".counted_client()" in source


def _is_long(metafunc: pytest.Metafunc, given: dict[str, Any]) -> bool:
    """Whether only `make faults` plays this combination."""
    where, colour, test = given.get("server"), given.get("colour"), metafunc.definition
    chosen = any("kind" in mark.kwargs for mark in test.iter_markers("played"))
    kind = "exclusive" if chosen else given.get("kind", "exclusive")
    if where is None:  # no server, so nothing to repeat
        return False
    if where is CLUSTER:
        # Every other scenario once, in one colour or the other.
        if test.get_closest_marker("takes_time") or kind != "exclusive":
            return True
        return colour != ("sync", "asyncio", None, None)[sum(map(ord, test.name)) % 4]
    if where is SENTINEL:
        return test.path.name not in ALWAYS_ON_SENTINEL or kind != "exclusive" or colour == "uvloop"
    if test.get_closest_marker("takes_time") and (where not in (FLAVOURS[0], MEMORY) or kind not in ONCE):
        return True
    if where in FLAVOURS[1:] and colour != ("asyncio" if where == FLAVOURS[1] else "sync"):
        return True  # both colours send the same requests
    if colour == "uvloop" and (kind != "exclusive" or where != FLAVOURS[0]):
        return True
    # A write lock is the very claim of the exclusive lock.
    here = (MEMORY,) if kind == "write" else (FLAVOURS[0], MEMORY)
    return kind == "cohort" or (kind != "exclusive" and where not in here)


@pytest.fixture
def server(request: pytest.FixtureRequest, server_of: Callable[[Any], Shared]) -> Iterator[Shared]:
    shared = server_of(request.param)
    with lent(shared):
        yield shared


@pytest.fixture
def colour(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(server: Shared, kind: str, colour: Colour) -> World:
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


@pytest.fixture
def values_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, failures and marks stay as long as was asked for; nothing else does."""
    overstaying = world.overstaying
    monkeypatch.setattr(
        world,
        "overstaying",
        lambda: {key: left for key, left in overstaying().items() if not key.endswith(("}:v", "}:e")) or left < 0},
    )
