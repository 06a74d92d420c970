"""A client whose metrics are counted, without a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from holdtight import Locks, Profile, metrics
from tests.ops.counting import Counts


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def locks(registry: CollectorRegistry, request: pytest.FixtureRequest) -> Iterator[Locks]:
    profiles = {"order:*": Profile(), "page:*": Profile()}
    with Locks(f"memory://{request.function.__name__}", profiles=profiles, ttl=20) as made:
        metrics.install(made, registry=registry, names=["nightly"])
        yield made


@pytest.fixture
def counts(registry: CollectorRegistry) -> Counts:
    return Counts(registry)
