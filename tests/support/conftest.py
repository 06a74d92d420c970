"""A proxy in front of the shared server, and a client behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.through import connect


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[RawClient]:
    with connect(proxy) as client:
        yield client
