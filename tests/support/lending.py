"""Servers that tests share: each test gets one empty, and must not harm it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from tests.support.clusters import WholeCluster
from tests.support.memory import MemoryStore
from tests.support.sentinels import FollowedMaster
from tests.support.servers import RunningServer

__all__ = ["Shared", "lent"]

Shared = RunningServer | MemoryStore | FollowedMaster | WholeCluster


@contextmanager
def lent(server: Shared) -> Iterator[None]:
    pid = server.pid
    server.flushall()
    yield
    if not server.running or server.pid != pid:
        cast(RunningServer, server).restart()
        pytest.fail("the test has ended the server that others share; harm a private_server instead")
    server.resume()
    server.flushall()
