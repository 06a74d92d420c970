"""Requests that look at a whole namespace on a cluster, or act on it from outside.

A cursor of SCAN names the server that it belongs to. What operators did is recorded beside the lock, in its slot: one
script can only write keys of one slot, and a record must come with what it records.
"""

import re
from typing import TYPE_CHECKING, Any

from holdtight.base.plan import LinkDown, Step
from holdtight.stores.redis import keys
from holdtight.stores.redis.forcing import Forcing, read_audit
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.survey import COUNT, START, Survey, name_of
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace
    from holdtight.stores.redis.cluster_node import ClusterNodePlace

__all__ = ["ClusterForcing", "ClusterSurvey"]

_BESIDE = b":audit"


class ClusterSurvey(Survey):
    def __init__(self, cluster: "ClusterPlace") -> None:
        super().__init__(cluster.client.namespace)
        self._cluster = cluster
        self._servers: list[ClusterNodePlace] = []
        self._served: list[ClusterNodePlace] = []
        """Which server had each slot when the first one was asked."""
        self._failed: dict[str, str] = {}
        """Why a server could not be asked."""

    def scan_step(self, cursor: bytes, prefix: str) -> Step:
        """Goes through one server after another. Those that have slots at the beginning are asked."""
        at, inner = self._read_cursor(cursor)
        return self._directed(super().scan_step(inner, prefix), at)

    def restarted(self, cursor: bytes) -> bytes:
        return START if cursor == START else self._begin(self._read_cursor(cursor)[0])

    def passed_over(self, cursor: bytes, down: LinkDown) -> bytes:
        at = 0 if cursor == START else self._read_cursor(cursor)[0]
        if at >= len(self._servers):
            raise down  # no server is known
        server = self._servers[at].display
        self._failed[server] = down.cause.removeprefix(f"{server}: ")
        return self._begin(at + 1)

    def looked_again(self) -> Step:
        """No server has a slot of Nowhere's: to ask it is to ask the cluster."""
        step = Step(command("PING"), None, lambda reply, sent: None, patience=LONGEST_PATIENCE)
        step.node = lambda: self._cluster.nowhere
        return step

    def rest(self) -> bytes:
        """A lock may have moved from a server that was asked late to one that was asked early."""
        before, self._served = self._served, list(self._cluster.nodes_at)
        gained = {now for now, was in zip(self._served, before, strict=False) if now is not was}
        gained.discard(self._cluster.nowhere)
        at = len(self._servers)
        self._servers += gained
        return self._begin(at)

    def failure(self) -> LinkDown | None:
        causes = "; ".join(f"{server}: {cause}" for server, cause in self._failed.items())
        return LinkDown(causes, sent=False) if causes else None

    def _begin(self, at: int) -> bytes:
        return b"%d:0" % at if at < len(self._servers) else START

    def audited_step(self, cursor: bytes) -> Step:
        """Reads the next cursor, and names that have records of what operators did."""
        at, inner = self._read_cursor(cursor)
        pattern = re.sub(rb"([*?\[\]\\])", rb"\\\1", self._namespace.encode()) + b":{*}" + _BESIDE

        def read(reply: Any, sent: float) -> tuple[bytes, list[str]]:
            found = (name_of(self._namespace, key.removesuffix(_BESIDE)) for key in reply[1])
            return reply[0], [name for name in found if name is not None]

        request = command("SCAN", inner, "MATCH", pattern, "COUNT", COUNT, "TYPE", "stream")
        return self._directed(Step(request, None, read, patience=LONGEST_PATIENCE), at)

    def _read_cursor(self, cursor: bytes) -> tuple[int, bytes]:
        if cursor == START:
            self._servers, self._failed = [], {}
            return 0, START
        at, _, inner = cursor.partition(b":")
        return int(at), inner

    def _directed(self, step: Step, at: int) -> Step:
        read = step.read

        def read_here(reply: Any, sent: float) -> Any:
            cursor, found = read(reply, sent)
            if cursor != START:
                return b"%d:%b" % (at, cursor), found
            return self._begin(at + 1), found

        def server() -> Any:
            """Known only when it is sent: before the first request of a client, no server is."""
            if not self._servers:
                self._servers, self._served = self._cluster.masters(), list(self._cluster.nodes_at)
            return self._servers[at]

        step.read = read_here
        step.node = server
        return step


class ClusterForcing(Forcing):
    def audit_key(self, name: str) -> bytes:
        return keys.main_key(self._namespace, name) + _BESIDE

    def audit_of_step(self, name: str, limit: int) -> Step:
        request = command("XREVRANGE", self.audit_key(name), "+", "-", "COUNT", limit)
        return Step(request, None, read_audit, patience=LONGEST_PATIENCE)
