"""A desk on each flavour of server in turn, and inboxes that listen there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.scripts.nodes import ClockworkNode, Node
from tests.scripts.workbench import Desk, Inbox
from tests.support.servers import RunningServer

INBOX = b"the inbox"


@pytest.fixture
def desk(server: RunningServer) -> Iterator[Desk]:
    with closing(Desk(server)) as desk:
        yield desk


@pytest.fixture
def listen(server: RunningServer) -> Iterator[Callable[[bytes], Inbox]]:
    """listen(channel): a connection that has subscribed to it."""
    with ExitStack() as stack:
        yield lambda channel: stack.enter_context(closing(Inbox(server, channel)))


@pytest.fixture
def inbox(listen: Callable[[bytes], Inbox]) -> Inbox:
    """Listens on INBOX, where all of a test's waiters may be rung."""
    return listen(INBOX)


@pytest.fixture
def node(server: RunningServer) -> Iterator[Node]:
    node = Node(server)
    with closing(node.wire):
        yield node


@pytest.fixture
def timed(server: RunningServer) -> Iterator[ClockworkNode]:
    node = ClockworkNode(server)
    with closing(node.wire):
        yield node


@pytest.fixture(params=["x", "r"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)
