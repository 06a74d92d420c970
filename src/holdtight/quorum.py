"""What clients of a quorum have in common, whatever their colour: its place, its breakers, and what it says.

A quorum is several places, one for each node, each with its own connections, its own station of the keeper and its own
idea of the time there. Grants on it are in quorumtenure.py; see core/quorum.py for what makes a majority.
"""

from typing import TYPE_CHECKING, Any

from holdtight.clock import Backoff
from holdtight.core.quorum import all_answered, say
from holdtight.core.survey import inspect
from holdtight.errors import LockError, NotSupported, QuorumNotReached
from holdtight.place import Place
from holdtight.plan import Fan, LinkDown, NoQuorum, Plan, ServerSaid
from holdtight.redis.ballot import Ballot, QuorumStore
from holdtight.redis.link import Link
from holdtight.redis.node import Client
from holdtight.redis.store import LONGEST_PATIENCE
from holdtight.redis.topology import RedisPlace
from holdtight.values import LockInfo

if TYPE_CHECKING:
    from holdtight.post import Post
    from holdtight.redis.targets import Single
    from holdtight.settings import Settings

__all__ = [
    "Breaker",
    "QuorumPlace",
    "bless",
    "look_at",
    "meaning",
    "refuse",
]

_PROBES = Backoff(first="50ms", cap="1s")
SILENT_SECONDS = 0.5
MOST_OWED = 64


class Breaker:
    """Of one node: after failures in a row it is left alone for a while, then one probe decides. It saves time, and
    never changes what a majority is."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_at = 0.0
        self._last: object = None
        self._cause = ""
        self._refused = False

    def failed(self, now: float, cause: str, *, refused: bool = False) -> None:
        """`refused`: the cause is what the node itself said, to us who would come in."""
        self._failures += 1
        self._cause, self._refused = cause, refused
        # The first does not open it, not even for who has looked at the clock before.
        self._closed_at = 0.0 if self._failures == 1 else now + _PROBES.pause(self._failures - 1)

    def failed_once(self, now: float, cause: str, what: object, *, refused: bool = False) -> None:
        """As `failed`; the end of one connection is one failure, however many are told of it."""
        if what is not self._last:
            self._last = what
            self.failed(now, cause, refused=refused)

    def answer(self) -> LinkDown | ServerSaid:
        """What stands for that of a node which is left alone. A wrong password is not an outage, here as anywhere."""
        return ServerSaid(self._cause) if self._refused else LinkDown(self._cause or "it cannot be reached", sent=False)

    def worked(self) -> None:
        self._failures = 0

    def is_open(self, now: float) -> bool:
        return self._failures > 0 and now < self._closed_at


class NodePlace(RedisPlace):
    """One node. `runs` says which of the nodes each run of a server belongs to, of all nodes together."""

    def __init__(self, target: "Single", client: Client, settings: "Settings", post: "Post", runs: "Runs") -> None:
        super().__init__(target, client, post, settings.tls)
        self._runs = runs
        self._run = b""

    def open(self, timeout: float) -> Link:
        """Under two names one server would have two votes. It has the one by which it was reached first."""
        link = super().open(timeout)
        run = link.session.run
        if run and run != self._run:
            other = self._runs.setdefault(run, self)
            if other is not self:
                link.close()
                raise LinkDown(
                    f"it is the same server as {other.display}, and a quorum's nodes must be independent", sent=False
                )
            self._runs.pop(self._run, None)
            self._run = run
        return link


Runs = dict[bytes, NodePlace]


class QuorumPlace(Place):
    """All nodes as one. Only its nodes can be connected to."""

    def __init__(self, settings: "Settings", client: Client, post: "Post") -> None:
        from holdtight.redis.targets import Quorum, Single

        target = settings.target
        assert isinstance(target, Quorum)
        assert settings.max_ttl is not None
        super().__init__(client, post, target.display())
        self.nodes: list[NodePlace] = []
        runs: Runs = {}
        for each in target.nodes:
            assert isinstance(each, Single)
            node = client.for_node(guarded=settings.restart_guard, max_ttl=settings.max_ttl)
            self.nodes.append(NodePlace(each, node, settings, post, runs))
        self.names = _distinct([node.display for node in self.nodes])
        self.store = QuorumStore(
            client, [node.client for node in self.nodes], drift=settings.drift, max_ttl=settings.max_ttl
        )

    def renew_identity(self) -> None:
        """In a forked child."""
        self.client.renew_identity()
        for node in self.nodes:
            node.client.renew_identity(self.client.id)


def _distinct(names: list[str]) -> list[str]:
    return names if len(set(names)) == len(names) else [f"{name} ({at + 1})" for at, name in enumerate(names)]


def meaning(error: LinkDown | ServerSaid, name: str | None, ballot: Ballot | None, server: str) -> LockError:
    """One of our errors for what a plan on a quorum met."""
    if isinstance(error, NoQuorum):
        return QuorumNotReached.among(name, error.nodes, error.majority)
    if isinstance(error, ServerSaid) and ballot is not None:
        return ballot.meaning(error)
    return QuorumNotReached.among(name, {server: str(error)}, 0)


def refuse(what: str, name: str | None = None) -> NotSupported:
    why = {
        "semaphore": "a quorum has no semaphores: permits counted by majorities that overlap do not add up, and more "
        "could be out than the limit says. Use one server for semaphores",
        "downgrade": "cannot downgrade on a quorum: nodes would change over one by one, with no moment at which all "
        "agree that nobody else writes. Release, and take read() anew",
        "detach": "cannot detach on a quorum: it would have to be taken over on every node in one step. Release, and "
        "let the other acquire",
        "adopt": "cannot adopt on a quorum: locks of a quorum cannot be detached",
    }
    return NotSupported(why[what], name=name)


def bless(place: QuorumPlace) -> Plan[dict[str, str]]:
    """Once to every node; a majority must have heard it."""
    now = place.clock()
    steps = [place.store.bless_step(index, now, LONGEST_PATIENCE) for index in range(len(place.nodes))]
    said: list[Any] = yield Fan(steps, all_answered, list, LONGEST_PATIENCE)
    nodes = {name: "blessed" if each is True else say(each) for name, each in zip(place.names, said, strict=True)}
    if said.count(True) < place.store.majority:
        raise NoQuorum(nodes, place.store.majority, answered=False)
    return nodes


def look_at(place: QuorumPlace, ballot: Ballot, entered: dict[str, int]) -> Plan[LockInfo]:
    def guarded(index: int, stamp: Any) -> float:
        """Seconds until the node votes, by what its stamp says; its run may be a later one than that."""
        client = place.nodes[index].client
        if not client.guarded or isinstance(stamp, LinkDown | ServerSaid):
            return 0.0
        if not stamp:
            return place.store.max_ttl_ms / 1000
        since, max_ttl, _ = stamp
        return (since + max_ttl) / 1000 - client.server_time(place.clock()) if since else 0.0

    steps = [place.store.stamp_step()] * len(place.nodes)
    return inspect(ballot, place.names, lambda: steps, place.store.records_step, guarded, entered)
