"""The pytest plugin: `locks`, `async_locks` and `clock`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdtight import AsyncLocks, Locks
    from holdtight.testing.advance import Clock

__all__ = [
    "async_locks",
    "clock",
    "holdtight_options",
    "holdtight_server",
    "holdtight_target",
    "locks",
    "pytest_addoption",
    "pytest_configure",
]

STORES = ("memory", "embedded")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "holdtight_store", "where locks and async_locks keep their locks: memory or embedded", default="memory"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "holdtight_store(where): memory or embedded, for this test; overrides the ini option"
    )


@pytest.fixture
def holdtight_options() -> dict[str, Any]:
    """The options of `locks` and `async_locks`. Override it, for example with `{"ttl": 5}`."""
    return {}


@pytest.fixture
def locks(holdtight_target: Any, holdtight_options: dict[str, Any]) -> "Iterator[Locks]":
    """A `Locks` on a store of this test alone, shared with `async_locks`."""
    from holdtight import Locks

    with Locks(holdtight_target, **holdtight_options) as opened:
        yield opened


@pytest.fixture
def async_locks(holdtight_target: Any, holdtight_options: dict[str, Any]) -> "Iterator[AsyncLocks]":
    """An `AsyncLocks` on a store of this test alone, shared with `locks`."""
    from holdtight import AsyncLocks

    opened = AsyncLocks(holdtight_target, **holdtight_options)
    yield opened
    opened.discard()


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> "Iterator[Clock]":
    """A clock that the test advances. In a test with this fixture, `locks` and `async_locks` use it."""
    from holdtight.testing.advance import Clock

    if _store(request) != "memory":
        pytest.fail("the fixture clock needs the memory store: a real server has its own clock", pytrace=False)
    if _IN_REAL_TIME in request.node.stash:
        pytest.fail("the fixture clock was requested after locks or async_locks: request it first", pytrace=False)
    made = Clock()
    yield made
    made.stop()


@pytest.fixture
def holdtight_target(request: pytest.FixtureRequest) -> object:
    """The target of `locks` and `async_locks` in this test."""
    from holdtight.config.targets import Memory
    from holdtight.keeper.keeper import runtime
    from holdtight.stores.memory.place import Stores, micros

    if _store(request) == "embedded":
        return request.getfixturevalue("holdtight_server")()
    given: Any = request.getfixturevalue("clock") if "clock" in request.fixturenames else None
    if hasattr(given, "store") and hasattr(given, "runtime"):  # a project may have its own fixture named clock
        return given.store()
    request.node.stash[_IN_REAL_TIME] = True
    return Memory("", _Realm(runtime, Stores(micros)))


@pytest.fixture(scope="session")
def holdtight_server() -> Iterator[Any]:
    """For `holdtight_store = embedded`: a function that empties our own server and returns its URL."""
    from holdtight import Locks
    from holdtight.embedded import Server
    from holdtight.stores.redis.resp import command

    with Server() as server:

        def emptied() -> str:
            with Locks(server.url) as cleaner:
                link = cleaner.place.open(5.0)
                try:
                    link.call(command("FLUSHALL"), 5.0)
                finally:
                    link.close()
            return server.url

        yield emptied


class _Realm:
    """Separate stores for one test, in real time."""

    def __init__(self, runtime: Any, stores: Any) -> None:
        self.runtime = runtime
        self.stores = stores


_IN_REAL_TIME = pytest.StashKey[bool]()


def _store(request: pytest.FixtureRequest) -> str:
    marker = request.node.get_closest_marker("holdtight_store")
    where = marker.args[0] if marker and marker.args else request.config.getini("holdtight_store")
    if where not in STORES:
        pytest.fail(f"holdtight_store must be one of {', '.join(STORES)}, not {where!r}", pytrace=False)
    return str(where)
