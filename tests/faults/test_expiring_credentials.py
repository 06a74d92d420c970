"""Credentials that expire on the nodes of a quorum: every connection is ended and replaced, and no lease is lost.

On one server: see scenarios/test_connecting.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.clients import OpenClient
from tests.faults.quorum import Nodes, votes_of
from tests.support.leases import renewed
from tests.support.processes import wait_for

RIGHTS = ("~ht:*", "resetchannels", "&ht:*", "+@all", "-@admin", "-@dangerous", "+info")


class Vault:
    """One user on all nodes; `rotate` changes its password everywhere and ends all its connections."""

    def __init__(self, nodes: Nodes) -> None:
        self.asked: list[str] = []
        self.password = "first"
        self._servers = nodes.servers
        for server in self._servers:
            server.add_user("worker", self.password, *RIGHTS)

    def give(self) -> tuple[str, str]:
        self.asked.append(self.password)
        return "worker", self.password

    async def give_awaited(self) -> tuple[str, str]:
        return self.give()

    def rotate(self) -> list[int]:
        """Returns how many connections each node has ended."""
        self.password = f"rotated-{len(self.asked)}"
        ended: list[int] = []
        for server in self._servers:
            server.command("ACL", "SETUSER", "worker", "resetpass", f">{self.password}")
            ended.append(int(server.command("CLIENT", "KILL", "USER", "worker")))
        return ended


@pytest.mark.parametrize(
    "way",
    [lambda vault: vault.give, pytest.param(lambda vault: vault.give_awaited, marks=pytest.mark.long)],
    ids=["plain", "awaited"],
)
def test_a_lease_on_a_quorum_outlives_its_credentials(
    nodes: Nodes, open_client: OpenClient, way: Callable[[Vault], Callable[[], object]]
) -> None:
    vault = Vault(nodes)
    client = open_client(nodes.urls, credentials=way(vault), ttl=6)
    lease = client.acquire("a", wait=10)
    for _ in range(2):
        renewed(lease)  # by the keeper, on connections of its own
        before = len(vault.asked)
        assert sum(count > 0 for count in vault.rotate()) >= 3
        client.release(client.acquire("b", wait=10))
        renewed(lease)
        assert set(vault.asked[before:]) == {vault.password}
    vault.rotate()
    client.release(lease)
    wait_for(lambda: not any(votes_of(nodes, "a")), what="all votes to be given back")
