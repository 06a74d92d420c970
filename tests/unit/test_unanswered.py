"""How long a server of a cluster has left a request unanswered, as the kernel tells it."""

from __future__ import annotations

import socket
import time

import pytest

from holdtight.stores.redis.cluster_link import ClusterLink

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="this system does not tell")


def test_a_request_counts_as_unanswered_until_the_server_sends_something() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        link = ClusterLink(socket.create_connection(listening.getsockname()))
        server, _ = listening.accept()
    with server:
        link.send(b"greeting")
        time.sleep(0.02)
        server.sendall(b"+OK\r\n")
        time.sleep(0.05)
        assert link.unanswered() == 0.0
        link.send(b"request")
        time.sleep(0.1)
        assert 0.09 <= link.unanswered() < 30
        server.sendall(b"+OK\r\n")  # that nobody has read it does not matter
        time.sleep(0.05)
        assert link.unanswered() == 0.0
    link.close()
    assert link.unanswered() == 0.0
