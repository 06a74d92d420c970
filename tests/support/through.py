"""A client behind the proxy."""

from __future__ import annotations

import socket

from tests.support.proxy import Proxy
from tests.support.raw import RawClient

__all__ = ["connect", "silent", "was_reset"]

SOON = 0.05
"""Seconds: long enough for what happens at once, short enough to wait in vain for what must not happen."""


def connect(proxy: Proxy, timeout: float = 10) -> RawClient:
    return RawClient(("127.0.0.1", proxy.port), timeout)


def silent(client: RawClient) -> bool:
    """Nothing arrives soon."""
    client.socket.settimeout(SOON)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(10)
    return False


def was_reset(client: RawClient) -> bool:
    try:
        client.socket.recv(1)
    except ConnectionResetError:
        return True
    return False
