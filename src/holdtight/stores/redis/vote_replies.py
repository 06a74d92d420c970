"""The raw replies of the nodes of a quorum to one round of votes."""

from collections.abc import Sequence
from typing import Any

from holdtight.base.plan import LinkDown
from holdtight.stores.times import marker_for

__all__ = ["VoteReplies", "agreed_fence"]


def agreed_fence(replies: list[Any], majority: int) -> int | None:
    """The fence that a majority of raw vote replies grants; None if the granted fences differ or a holder expired."""
    fence = None
    yes = 0
    for reply in replies:
        kind = reply.__class__
        if kind is bytes:
            said = reply[:16]
        elif kind is list and reply[0] == 1 and not reply[3]:
            said = reply[1]
        elif kind is list and reply[0] == 1:
            return None
        else:
            continue
        if fence is None:
            fence = said
        elif said != fence:
            return None
        yes += 1
    return int(fence) if fence is not None and yes >= majority else None


class VoteReplies:
    """The raw replies of all nodes to one round of `vote_requests`, and the connections that carried it. None, or an
    exception, stands for a missing reply."""

    __slots__ = ("connections", "limits", "replies")

    def __init__(self, replies: list[Any], limits: list[int], connections: Sequence[Any]) -> None:
        self.replies = replies
        self.limits = limits
        self.connections = connections

    def granted(self) -> list[bool]:
        return [reply.__class__ is bytes or (reply.__class__ is list and reply[0] == 1) for reply in self.replies]

    def is_unanswered(self, index: int) -> bool:
        """True if the node may have voted for us without our knowledge, or still may."""
        reply = self.replies[index]
        return reply is None or (isinstance(reply, LinkDown) and reply.sent)

    def all_markers(self) -> list[int]:
        return [marker_for(limit) for limit in self.limits]

    def marker(self, index: int) -> int:
        """The end of the marker, in that node's ms; 0 if its answer is known."""
        return marker_for(self.limits[index]) if self.is_unanswered(index) else 0
