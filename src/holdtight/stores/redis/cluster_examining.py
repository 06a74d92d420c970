"""The requests behind `doctor` to one server of a cluster."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.base.plan import Step
from holdtight.stores.redis import keys
from holdtight.stores.redis.examining import EXAM_PATIENCE, Examining
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.slots import ASKING, slot_of

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace
    from holdtight.stores.redis.cluster_node import ClusterNodePlace

__all__ = ["NodeExamining", "OpenSlots"]


class OpenSlots(NamedTuple):
    """The slots that a server is giving away or taking in."""

    open: list[str]


class NodeExamining(Examining):
    """Requests without a key say which server they are for; all others go where their key is."""

    def __init__(self, node: "ClusterNodePlace") -> None:
        super().__init__(node.client)
        self._node = node

    @classmethod
    def anywhere(cls, cluster: "ClusterPlace") -> Examining:
        """For any server."""
        return Examining(cluster.client)

    def _here(self, step: Step) -> Step:
        step.node = lambda: self._node
        return step

    def clock_step(self) -> Step:
        return self._here(super().clock_step())

    def ping_step(self) -> Step:
        return self._here(super().ping_step())

    def hello_step(self) -> Step:
        return self._here(super().hello_step())

    def info_step(self) -> Step:
        return self._here(super().info_step())

    def config_step(self, word: str) -> Step:
        return self._here(super().config_step(word))

    def wait_step(self) -> Step:
        return self._here(super().wait_step())

    def size_step(self) -> Step:
        return self._here(super().size_step())

    def scan_step(self, cursor: bytes) -> Step:
        return self._here(super().scan_step(cursor))

    def rights_main(self) -> bytes:
        """A name that this server has."""
        while True:
            main = keys.main_key(self._namespace, f"doctor {os.urandom(8).hex()}")
            if self._node.cluster.at(slot_of(main)) is self._node or not self._node.serves:
                return main

    def probes(self) -> Sequence[tuple[str, Step]]:
        """Channels of several slots are refused after the look at the rights, so that nothing is subscribed."""
        channels = [keys.main_key(self._namespace, name) + b":doctor" for name in "ab"]
        requests = {"asking": ASKING} | {each: command(each, *channels) for each in ("ssubscribe", "sunsubscribe")}
        return [
            (word, self._here(Step(request, None, lambda reply, sent: None, patience=EXAM_PATIENCE)))
            for word, request in requests.items()
        ]

    def rights_channel(self, main: bytes) -> bytes:
        return main + b":doctor"

    def parts(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        """One by one: they have different slots."""
        return ([name] for name in names)

    def slots_step(self) -> Step:
        def read(reply: Any, sent: float) -> OpenSlots:
            text = reply.decode() if isinstance(reply, bytes) else str(reply)
            own = next((line for line in text.splitlines() if "myself" in line), "")
            return OpenSlots(re.findall(r"\[(\d+)-[<>]-", own))

        return self._here(Step(command("CLUSTER", "NODES"), None, read, patience=EXAM_PATIENCE))
