"""The runs: the protocol as built, which must hold, and changed protocols, in which Spin must find a fault."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["RUNS", "Expected", "Run"]


class Expected(Enum):
    HOLDS = "holds"  # the protocol as built, every state within the bounds
    FAILS = "fails"  # one thing done differently
    LIMIT = "limit"  # the protocol as built, with more going wrong than it is said to bear
    REACHED = "reached"  # no fault: shows that the model reaches that state


@dataclass(frozen=True)
class Run:
    name: str
    model: str
    expected: Expected
    what: str
    switches: str
    quick: bool = False  # also part of the tests: seconds, not minutes


def _holds(name: str, what: str, switches: str, *, quick: bool = False) -> Run:
    return Run(name, name.partition("-")[0], Expected.HOLDS, what, switches, quick)


def _fails(switch: str, what: str, switches: str, *, quick: bool = False, model: str = "quorum") -> Run:
    name = f"{model}-{switch.lower().replace('_', '-')}"
    return Run(name, model, Expected.FAILS, what, f"{switch} {switches}", quick)


def _fence_fails(switch: str, what: str, switches: str, *, quick: bool = False) -> Run:
    return _fails(switch, what, switches, quick=quick, model="fence")


# A search for a failure leaves out the faults that it does not need: it is over sooner, and its trace is shorter.
_CALM = "LATE=0 RENEWING=0 RESTARTING=0"
_ONE_RESTARTS = "LATE=0 RENEWING=0 RESTARTING=1"
_IN_TURN = "LATE=0 IN_TURN PATIENT"
_RESTARTS = "RESTARTS=1 GUARD=2"
# Nodes that a flush, or an old snapshot, befalls; see HARMS. EARNED tells of the short cut step by step.
_ONE_IS_FLUSHED = f"{_ONE_RESTARTS} HARMS=2"
_ONE_COMES_BACK = f"{_ONE_RESTARTS} HARMS=4"

RUNS = (
    _holds("quorum-small", "3 nodes, 2 owners, one renews, ttl 2", "RENEWING=1", quick=True),
    _holds("quorum-renewing", "3 nodes, 2 owners that renew, ttl 2 and 3", "LONG=3"),
    _holds("quorum-three-owners", "3 nodes, 3 owners, one renews, ttl 2", "OWNERS=3 RENEWING=1"),
    _holds("quorum-five-nodes", "5 nodes, 2 owners, ttl 2", "N=5 RENEWING=0"),
    _holds(
        "quorum-clock-steps",
        "3 nodes whose clocks are set, 2 owners that renew",
        "CLOCK_STEPS RESTARTING=0",
    ),
    _holds(
        "quorum-short-cut",
        "3 nodes, restarted empty, flushed, or from old snapshots, 2 owners, ttl 2",
        "RENEWING=0 HARMS=15 SAME_AS_A_LOOK",
        quick=True,
    ),
    _holds(
        "quorum-short-cut-earned",
        "the same, every mark and every vouching connection step by step",
        "EARNED RENEWING=0 HARMS=15 SAME_AS_A_LOOK",
    ),
    _holds(
        "quorum-short-cut-renewing",
        "3 nodes, restarted or flushed, 2 owners, one renews, ttl 2",
        "RENEWING=1 HARMS=7 SAME_AS_A_LOOK",
    ),
    _holds(
        "quorum-short-cut-three-owners",
        "3 nodes, restarted or flushed, 3 owners, ttl 2",
        "OWNERS=3 RENEWING=0 HARMS=7 SAME_AS_A_LOOK",
    ),
    _holds("fence-small", "3 nodes, 2 owners, 1 tick", "TICKS=1", quick=True),
    _holds("fence-three-owners", "3 nodes, 3 owners", "OWNERS=3"),
    _holds("fence-forgetting", "3 nodes that forget, 2 owners, 3 ticks", "TICKS=3"),
    _holds("fence-restart", "3 nodes, one restart, 2 owners, 3 ticks", f"TICKS=3 {_RESTARTS} PROPOSALS=21 LATE=0"),
    _holds(
        "fence-restarts",
        "3 nodes, two restarts, 2 owners in turn, 3 ticks",
        "TICKS=3 RESTARTS=2 GUARD=2 LATE=0 IN_TURN",
    ),
    _holds(
        "fence-snapshot",
        "3 nodes, one restart, empty or from an old snapshot, 2 owners, 3 ticks",
        f"SNAPSHOT TICKS=3 {_RESTARTS} PROPOSALS=5 LATE=0",
    ),
    _holds(
        "fence-short-max-ttl",
        "3 nodes, one restart, 2 owners, a max_ttl as short as patience, 2 ticks",
        "TICKS=2 RESTARTS=1 GUARD=1 LATE=0",
    ),
    _holds("fence-skewed", "3 nodes, one with a fast clock, 2 owners, 3 ticks", "TICKS=3 SKEW=3 PROPOSALS=85 LATE=0"),
    _holds(
        "fence-clocks-apart",
        "3 nodes, one clock ahead by as long as nodes remember, 2 owners that may take it for right, 3 ticks",
        "TICKS=3 SKEW=8 PROPOSALS=113 LATE=0",
    ),
    _holds(
        "fence-set-right",
        "3 nodes, one clock far ahead until it is set right, 2 owners, 3 ticks",
        "SET_RIGHT TICKS=3 SKEW=16 PROPOSALS=49 LATE=0",
    ),
    _holds(
        "fence-far-ahead",
        "3 nodes, one clock further ahead than max_ttl, one restart, 2 owners, 3 ticks",
        f"TICKS=3 SKEW=12 {_RESTARTS} PROPOSALS=17 LATE=0",
    ),
    _holds(
        "fence-healing",
        "3 nodes, 3 owners in turn, a key made by a renewal, also late, 3 ticks",
        f"HEALING=1 OWNERS=3 TICKS=3 PROPOSALS=17 {_IN_TURN}",
    ),
    _holds(
        "fence-healing-restart",
        "3 nodes, one restart, 2 owners in turn, 2 keys made by renewals, 3 ticks",
        f"HEALING=2 {_RESTARTS} TICKS=3 PROPOSALS=21 {_IN_TURN}",
    ),
    _holds("fence-five-nodes", "5 nodes, 2 owners", "N=5"),
    _fails("AVAILABLE_QUORUM", "a majority of the nodes that answer is enough", _CALM, quick=True),
    _fails("NO_GUARD", "a node that restarted empty votes at once", _ONE_RESTARTS, quick=True),
    _fails("SHORT_GUARD", "the guard is shorter than the longest ttl", _ONE_RESTARTS),
    _fails("MIXED_MAX_TTL", "clients with different max_ttl", f"{_ONE_RESTARTS} SHORT=1"),
    _fails("BLIND_BLESS", "a bless does not say which run it is for", _ONE_RESTARTS),
    _fails("UNMARKED", "a vouching connection gets a vote whatever is there", _ONE_IS_FLUSHED, quick=True),
    _fails("UNVOUCHED", "anybody gets a vote on top of what votes have left", _ONE_COMES_BACK, quick=True),
    _fails("VOUCHING_FOR_GOOD", "a client vouches for a node, not for a connection", f"EARNED {_ONE_COMES_BACK}"),
    _fails("VOUCHED_BY_A_NO", "a connection vouches after any answer", _ONE_COMES_BACK),
    _fails("MARK_OUT_OF_NOTHING", "a release where nothing is leaves a mark", f"{_ONE_IS_FLUSHED} OWNERS=3"),
    _fails("HEAL_GUARDED", "a guarded node lets a renewal make a key", "LATE=0 RENEWING=1 RESTARTING=1 LONG=3"),
    _fails("SAME_OWNER", "a client that failed asks again as the same owner", _CALM),
    _fails("UNCHECKED_RELEASE", "a release does not look whose key it is", f"{_CALM} OWNERS=3"),
    _fails("EARLY_RELEASE", "releases leave before the lease has ended", _CALM),
    _fails("SHRINKING_RENEWAL", "a late renewal can shorten a key's time", _CALM),
    _fails("LATE_CREDIT", "a late answer counts for the newest renewal", "LATE=0 RENEWING=1 RESTARTING=0"),
    _fails("FROM_REPLY", "validity counts from the answer", _CALM),
    _fails("NO_MARGIN", "no margin for drifting clocks", _CALM),
    _fence_fails(
        "COUNTER_FENCES", "a counter on each node, the largest is the fence", "OWNERS=3 PROPOSALS=1 LATE=0", quick=True
    ),
    _fence_fails("NO_WRITE_BACK", "the largest answer is the fence", "OWNERS=3 PROPOSALS=1 LATE=0"),
    _fence_fails(
        "WRITE_BACK_UNOWNED", "the fence is written back to any node", "OWNERS=3 PROPOSALS=3 LATE=0", quick=True
    ),
    _fence_fails(
        "NO_RECHECK", "validity is not computed again after writing back", "OWNERS=3 TICKS=1 PROPOSALS=1 LATE=0"
    ),
    _fence_fails("NO_GUARD", "a node that restarted empty votes at once", "RESTARTS=1", quick=True),
    _fence_fails("ANY_PROPOSAL", "a node takes proposals of any age", f"TICKS=3 PROPOSALS=33 {_IN_TURN}", quick=True),
    _fence_fails(
        "NOT_AFTER_ONLY",
        "a node takes proposals of any age, in requests that are not late: clocks apart",
        f"TICKS=3 SKEW=8 PROPOSALS=65 {_IN_TURN}",
        quick=True,
    ),
    Run(
        "fence-not-after-short-max-ttl",
        "fence",
        Expected.FAILS,
        "the same with a short max_ttl, then an empty restart",
        f"NOT_AFTER_ONLY TICKS=1 RESTARTS=1 GUARD=1 PROPOSALS=20 {_IN_TURN}",
    ),
    _fence_fails(
        "LIFTED",
        "a node whose clock is ahead makes the fence larger, and is then set right",
        f"SET_RIGHT TICKS=3 SKEW=16 PROPOSALS=1 {_IN_TURN}",
        quick=True,
    ),
    Run(
        "fence-lifted-restart",
        "fence",
        Expected.FAILS,
        "the same, and another node restarts empty",
        f"LIFTED TICKS=3 SKEW=12 {_RESTARTS} PROPOSALS=1 {_IN_TURN}",
    ),
    _fence_fails("ANY_FUTURE", "a node takes proposals from any future", f"TICKS=3 {_RESTARTS} PROPOSALS=9 {_IN_TURN}"),
    Run(
        "limit-bare-majority",
        "quorum",
        Expected.LIMIT,
        "a clock step under a lease on a bare majority",
        f"CLOCK_STEPS BARE_MAJORITY {_CALM}",
    ),
    Run(
        "limit-held-count",
        "quorum",
        Expected.LIMIT,
        "a clock step under a lease on all nodes, renewed at different times",
        "CLOCK_STEPS HELD_COUNT LATE=0 RENEWING=1 RESTARTING=0",
    ),
    Run(
        "limit-late-bless",
        "quorum",
        Expected.LIMIT,
        "a bless is on its way while the node is flushed",
        f"LATE_BLESS {_ONE_IS_FLUSHED}",
    ),
    Run(
        "limit-fast-clock",
        "fence",
        Expected.LIMIT,
        "a clock further ahead than max_ttl that a client takes for right, then an empty restart",
        f"TICKS=3 SKEW=8 TAIL=9 {_RESTARTS} PROPOSALS=65 {_IN_TURN}",
    ),
    Run(
        "limit-set-right",
        "fence",
        Expected.LIMIT,
        "a clock far ahead that a client takes for right, and that is then set right",
        f"SET_RIGHT TICKS=3 SKEW=16 PROPOSALS=65 {_IN_TURN}",
    ),
    Run(
        "reach-expiry",
        "quorum",
        Expected.REACHED,
        "a lease follows one that expired while its owner slept",
        f"REACH_EXPIRY {_CALM}",
    ),
    Run(
        "reach-guard",
        "quorum",
        Expected.REACHED,
        "a node that restarted votes again after its guard",
        f"REACH_GUARD {_ONE_RESTARTS}",
    ),
    Run(
        "reach-short-cut",
        "quorum",
        Expected.REACHED,
        "a node votes without a look at its stamp",
        f"REACH_SHORT_CUT EARNED {_CALM}",
    ),
    Run(
        "reach-renewal",
        "quorum",
        Expected.REACHED,
        "a lease outlives its first ttl",
        "REACH_RENEWAL LATE=0 RENEWING=1 RESTARTING=0",
    ),
    Run(
        "reach-write-back",
        "fence",
        Expected.REACHED,
        "a second lease has a fence that was written back",
        "REACH_WRITE_BACK OWNERS=3 PROPOSALS=1 LATE=0",
    ),
)
