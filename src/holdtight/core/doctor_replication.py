"""What `doctor` finds about replication and Sentinel. Pure: it judges what was seen and sends nothing."""

from collections.abc import Iterator, Sequence
from operator import itemgetter

from holdtight.base.operations import Finding, ReplicaSeen, SentinelSeen, Severity
from holdtight.core.findings import finding

__all__ = ["SURVIVES", "judge", "lags", "of_replicas", "skews"]

FAILOVER_SECONDS = 2.0
"""How long Sentinels take once they have noticed a crash."""
SURVIVES = 2 / 3
"""The share of its ttl that a lease has left at any time: it is renewed every third of its ttl."""
FEW = 3
SKEW, GREAT_SKEW = 0.1, 1.0
LAG_SECONDS = 1


def judge(
    master: str,
    info: dict[str, str],
    offset: float | None,
    min_replicas: str | None,
    sentinels: Sequence[SentinelSeen],
    replicas: Sequence[ReplicaSeen],
    ttl: float,
) -> Iterator[Finding]:
    """`info` is the master's INFO, `offset` how far its clock is ahead of ours, None if it was not read.
    `min_replicas` is its min-replicas-to-write, if known."""
    told = [each for each in sentinels if not each.cause]
    yield from _sentinels(sentinels, told)
    slowest = max((each.down_after for each in told), default=0.0)
    if slowest + FAILOVER_SECONDS > ttl * SURVIVES:
        seen = f"down-after-milliseconds is {slowest * 1000:.0f}, and the shortest ttl {ttl:g} s"
        yield finding("SLOW_FAILOVER", master, seen)
    if not replicas and info.get("connected_slaves") == "0":
        yield finding("NO_REPLICA", master, "it has no replica")
    elif min_replicas == "0":
        yield finding("MIN_REPLICAS", master, "min-replicas-to-write is 0")
    yield from of_replicas(replicas)
    yield from lags(master, info)
    clocks = [] if offset is None else [(master, offset)]
    yield from skews([*clocks, *((each.server, each.offset) for each in replicas if not each.cause)])


def of_replicas(replicas: Sequence[ReplicaSeen]) -> Iterator[Finding]:
    yield from _priorities(replicas)
    for each in replicas:
        yield from _replica(each)


def skews(clocks: Sequence[tuple[str, float]]) -> Iterator[Finding]:
    """`clocks` has each server, and how far its clock is ahead of ours."""
    if not clocks:
        return
    slow, fast = (choose(clocks, key=itemgetter(1)) for choose in (min, max))  # one finding is enough: the worst
    apart = fast[1] - slow[1]
    if apart > SKEW:
        bad = Severity.ERROR if apart > GREAT_SKEW else Severity.WARNING
        yield finding("CLOCK_SKEW", fast[0], f"its clock and that of {slow[0]} are {apart:.3g} s apart", severity=bad)


def _sentinels(sentinels: Sequence[SentinelSeen], told: Sequence[SentinelSeen]) -> Iterator[Finding]:
    for each in sentinels:
        if each.cause:
            yield finding("FEW_SENTINELS", each.endpoint, f"it cannot be asked: {each.cause}")
    for each in told:
        if each.not_told:
            yield finding("NOT_KNOWN", each.endpoint, f"SENTINEL REPLICAS is refused: {each.not_told}")
        if each.unheard:
            means = "It announces no failover: the Sentinels are asked every second instead"
            yield finding(
                "RIGHT_MISSING", each.endpoint, f"channels: {each.unheard}", severity=Severity.WARNING, means=means
            )
    known = max((each.sentinels for each in told), default=0)
    if told and known < FEW:
        yield finding("FEW_SENTINELS", None, f"there are {known}")
    named = sorted({f"{host}:{port}" for host, port in (each.master for each in told if each.master)})
    if len(named) > 1:
        yield finding("FEW_SENTINELS", None, f"they disagree about the master: {' or '.join(named)}")


def _priorities(replicas: Sequence[ReplicaSeen]) -> Iterator[Finding]:
    found = {each.server: each.info.get("slave_priority", "100") for each in replicas if not each.cause}
    if any(priority == "0" for priority in found.values()):
        server = next(server for server, priority in found.items() if priority == "0")
        yield finding("REPLICA_PRIORITY", server, "replica-priority is 0: Sentinel never promotes it")
    elif len(set(found.values())) > 1:
        seen = ", ".join(f"{priority} on {server}" for server, priority in found.items())
        yield finding("REPLICA_PRIORITY", None, f"replica-priority is unequal: {seen}")


def _replica(seen: ReplicaSeen) -> Iterator[Finding]:
    if seen.cause:
        yield finding("REPLICA_LAG", seen.server, f"it cannot be asked: {seen.cause}")
        return
    link = seen.info.get("master_link_status")
    if link != "up":
        yield finding("REPLICA_LAG", seen.server, f"its link to the master is {link}")
    if seen.info.get("slave_read_only") == "0":
        yield finding("WRITABLE_REPLICA", seen.server, "replica-read-only is no")


def lags(master: str, info: dict[str, str]) -> Iterator[Finding]:
    """A replica acknowledges every second what it has received; INFO of the master says how long ago that was."""
    for number in range(int(info.get("connected_slaves", "0"))):
        words = [word.partition("=") for word in info.get(f"slave{number}", "").split(",")]
        fields = {word: value for word, _, value in words}
        lag = fields.get("lag", "0")
        if lag.isdigit() and int(lag) > LAG_SECONDS:
            where = f"{fields.get('ip')}:{fields.get('port')}"
            yield finding("REPLICA_LAG", master, f"its replica {where} is {lag} s behind")
