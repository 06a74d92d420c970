"""A master with two replicas and three Sentinels, and a cluster of three masters with a replica each: formed once per
worker and flavour, and healed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.faults import clients
from tests.faults.clients import COLOURS, Client, Colour, OpenClient
from tests.support.clusters import Cluster
from tests.support.sentinels import Topology
from tests.support.servers import DEBIAN_REDIS, VALKEY_9, Flavour
from tests.topology.switching import Switch


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    found: Colour = request.param
    return found


@pytest.fixture
def open_client(colour: Colour) -> Iterator[OpenClient]:
    """Clients of the colour under test, closed at the end."""
    with ExitStack() as stack:

        def begin(url: str, **settings: Any) -> Client:
            return stack.enter_context(closing(clients.open_client(colour, url, **settings)))

        yield begin


FLAVOURS = [VALKEY_9, pytest.param(DEBIAN_REDIS, marks=pytest.mark.long)]


@pytest.fixture(params=FLAVOURS, ids=repr)
def topology(request: pytest.FixtureRequest, topology_of: Callable[[Flavour], Topology]) -> Iterator[Topology]:
    """Well and empty at first. A test may harm any of its processes."""
    shared = topology_of(request.param)
    shared.master.flushall()
    yield shared
    shared.heal()


@pytest.fixture(params=FLAVOURS, ids=repr)
def cluster(request: pytest.FixtureRequest, cluster_of: Callable[[Flavour], Cluster]) -> Iterator[Cluster]:
    """Well and empty at first. A test may harm any of its processes."""
    shared = cluster_of(request.param)
    shared.flushall()
    yield shared
    shared.heal()


@pytest.fixture
def switch() -> Iterator[Switch]:
    with ExitStack() as stack:
        yield Switch(stack)
