"""Requests that look at a whole namespace on a cluster, or act on it from outside.

A cursor of SCAN names the server that it belongs to. What operators did is recorded beside the lock, in its slot: one
script can only write keys of one slot, and a record must come with what it records.
"""

import re
from typing import TYPE_CHECKING, Any

from holdtight.base.plan import Step
from holdtight.stores.redis import keys
from holdtight.stores.redis.forcing import Forcing, read_audit
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.survey import COUNT, Survey, name_of
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace
    from holdtight.stores.redis.cluster_node import NodePlace

__all__ = ["ClusterForcing", "ClusterSurvey"]

_FIRST = b"0"
_BESIDE = b":audit"


class ClusterSurvey(Survey):
    def __init__(self, cluster: "ClusterPlace") -> None:
        super().__init__(cluster.client.namespace)
        self._cluster = cluster
        self._servers: list[NodePlace] = []

    def scan_step(self, cursor: bytes, prefix: str) -> Step:
        """Goes through one server after another. Those that have slots at the beginning are asked."""
        at, inner = self._read_cursor(cursor)
        return self._directed(super().scan_step(inner, prefix), at)

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
        if cursor == _FIRST:
            self._servers = []
            return 0, _FIRST
        at, _, inner = cursor.partition(b":")
        return int(at), inner

    def _directed(self, step: Step, at: int) -> Step:
        read = step.read

        def read_here(reply: Any, sent: float) -> Any:
            cursor, found = read(reply, sent)
            if cursor != _FIRST:
                return b"%d:%b" % (at, cursor), found
            return (_FIRST if at + 1 >= len(self._servers) else b"%d:0" % (at + 1)), found

        def server() -> Any:
            """Known only when it is sent: before the first request of a client, no server is."""
            self._servers = self._servers or self._cluster.masters()
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
