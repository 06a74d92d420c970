"""Fixtures for all tests: servers of every flavour, a proxy, children; and nothing may be left behind."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import hypothesis
import pytest

from tests.support import leftovers
from tests.support.alone import Room
from tests.support.certificates import Certificates, make_certificates
from tests.support.clock_steps import ClockSteps
from tests.support.clusters import CLUSTER, Cluster, WholeCluster, start_cluster, start_steady
from tests.support.lending import Shared, lent
from tests.support.memory import MEMORY, MemoryStore
from tests.support.order import in_good_order
from tests.support.processes import StartChild, spawn, wait_for
from tests.support.proxy import Proxy
from tests.support.sentinels import SENTINEL, FollowedMaster, Topology, start_sentinels
from tests.support.servers import DEBIAN_REDIS, FLAVOURS, VALKEY_9, Flavour, RunningServer, StartServer, start

# A busy machine is slow now and then: only tests about time assert times.
hypothesis.settings.register_profile("holdtight", deadline=None)
hypothesis.settings.load_profile("holdtight")

# A shell starts background jobs with Ctrl-C ignored, and children inherit that: ours must handle it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Set up first, so that it checks after everything else has been torn down."""
    threads, children = leftovers.threads(), leftovers.children().keys()

    def left() -> list[object]:
        new_children = [item for item in leftovers.children().items() if item[0] not in children]
        return [*(leftovers.threads() - threads), *new_children]

    yield
    try:
        wait_for(lambda: not left(), within=5)
    except AssertionError:
        pytest.fail(f"left behind by the tests: {left()}")


_room = pytest.StashKey[Room]()


def import_as_users_do() -> None:
    """A package with a pytest plugin has the assertions of all its modules rewritten when they are imported. Then two
    threads that import modules at once may fail: the parser of CPython 3.11 serves one thread at a time (SystemError,
    "AST constructor recursion depth mismatch"). Programs of users import the modules as they are."""
    for finder in sys.meta_path:
        getattr(finder, "_must_rewrite", set()).discard("holdtight")


def pytest_configure(config: pytest.Config) -> None:
    import_as_users_do()
    config.stash[_room] = Room(config)
    config.pluginmanager.register(ClockSteps())


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_room].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    with item.config.stash[_room].entered(item, nextitem):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = in_good_order(items, getattr(config, "workerinput", {}).get("workercount", 1))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector away from the thousands of tests while they are collected, and for ever after.

    It takes a quarter of the time of collecting. Many tests call `gc.collect()`, which takes a quarter of a second
    otherwise.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


# Servers


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every flavour in turn, unless a test chooses one. Scenarios have their own rules (scenarios/conftest.py)."""
    chosen = any("shared_server" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "shared_server" in metafunc.fixturenames and not chosen:
        flavours: list[Any] = list(FLAVOURS)
        if metafunc.definition.get_closest_marker("one_flavour"):
            # `make test` does not even collect what it would not play: collecting takes time in every worker.
            without_long = metafunc.config.option.markexpr == "not long"
            others = [] if without_long else [pytest.param(each, marks=pytest.mark.long) for each in FLAVOURS[1:]]
            flavours = [FLAVOURS[0], *others]
        metafunc.parametrize("shared_server", flavours, ids=repr, indirect=True, scope="session")


@pytest.fixture(scope="session")
def topology_of() -> Iterator[Callable[[Flavour], Topology]]:
    """A master with its replicas and Sentinels, formed once for each flavour."""
    formed: dict[str, Topology] = {}
    with ExitStack() as stack:

        def find(flavour: Flavour) -> Topology:
            if flavour.name not in formed:
                formed[flavour.name] = stack.enter_context(start_sentinels(_available(flavour)))
            return formed[flavour.name]

        yield find


@pytest.fixture(scope="session")
def cluster_of() -> Iterator[Callable[[Flavour], Cluster]]:
    """A cluster, formed once for each flavour."""
    formed: dict[str, Cluster] = {}
    with ExitStack() as stack:

        def find(flavour: Flavour) -> Cluster:
            if flavour.name not in formed:
                formed[flavour.name] = stack.enter_context(start_cluster(_available(flavour)))
            return formed[flavour.name]

        yield find


@pytest.fixture(scope="session")
def server_of(topology_of: Callable[[Flavour], Topology]) -> Iterator[Callable[[Any], Shared]]:
    """A server of a flavour, the memory store, the master of a topology, or a cluster: each started once, at its first
    use."""
    started: dict[str, Shared] = {}
    with ExitStack() as stack:

        def find(flavour: Any) -> Shared:
            if repr(flavour) not in started:
                if flavour is SENTINEL:
                    started[repr(flavour)] = FollowedMaster(topology_of(VALKEY_9))
                elif flavour is CLUSTER:
                    started[repr(flavour)] = WholeCluster(stack.enter_context(start_steady(_available(VALKEY_9))))
                elif flavour is MEMORY:
                    started[repr(flavour)] = stack.enter_context(MemoryStore())
                else:
                    started[repr(flavour)] = stack.enter_context(start(_available(flavour)))
            return started[repr(flavour)]

        yield find


@pytest.fixture(scope="session")
def shared_server(request: pytest.FixtureRequest, server_of: Callable[[Any], Shared]) -> Shared:
    return server_of(request.param)


@pytest.fixture
def server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """One server of each flavour in turn, empty; shared by all tests: a test must not harm it."""
    with lent(shared_server):
        yield shared_server


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts servers for one test: start_server(*options, flavour=None, **as for servers.start)."""
    with ExitStack() as stack:

        def begin(*options: str, flavour: Flavour | None = None, **settings: Any) -> RunningServer:
            return stack.enter_context(start(_available(flavour), *options, **settings))

        yield begin


@pytest.fixture
def private_server(request: pytest.FixtureRequest, start_server: StartServer) -> RunningServer:
    """A server of the test's own, to be paused and killed. Of another flavour: parametrize it, indirect=True."""
    return start_server(flavour=getattr(request, "param", None))


@pytest.fixture
def proxy(private_server: RunningServer) -> Iterator[Proxy]:
    """Between the test and its private server."""
    with Proxy(private_server.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    try:
        return make_certificates(tmp_path_factory.mktemp("certificates"))
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def tls_server(start_server: StartServer, certificates: Certificates) -> RunningServer:
    """A server with a TLS port. Only Debian's has one: the servers in wheels are built without TLS."""
    return start_server(flavour=DEBIAN_REDIS, tls=certificates)


def _available(flavour: Flavour | None) -> Flavour:
    """That flavour, or any; if there is none, the test is skipped, and says what it needs."""
    if flavour is None:
        flavour = next((each for each in FLAVOURS if each.missing() is None), FLAVOURS[0])
    if why := flavour.missing():
        pytest.skip(why)
    return flavour


# Children


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """As processes.spawn; children end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(spawn(*args, **kwargs))
