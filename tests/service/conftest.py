"""Places for tests of the lock service: one real server, and the memory store; a browser, and an instance to visit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.instances import Instance, instance, token_file
from tests.support.memory import MemoryStore
from tests.support.servers import RunningServer


@pytest.fixture
def place(server: RunningServer | MemoryStore) -> RunningServer | MemoryStore:
    return server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tests.service.browsing import CHROMIUM, FLAGS, playwright

    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visited(
    shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Instance, list[str]]]:
    """An instance, and tokens of the roles admin and read."""
    folder: Path = tmp_path_factory.mktemp("page")
    path, tokens = token_file(folder, "admin", "read")
    with instance(shared_server.url, folder, "--tokens", str(path)) as one:
        yield one, tokens
