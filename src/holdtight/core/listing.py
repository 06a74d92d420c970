"""The plans behind `list`: one page of names after another, so that the caller gets the first before the last is read.

SCAN returns every key that exists from the beginning to the end of the scan, and some of them twice. So the plan never
misses a lock that is held throughout, and a set of names drops the duplicates. A cursor means nothing to a server that
was restarted: after a broken connection the scan starts again.
"""

import re
from collections.abc import Generator, Sequence
from fnmatch import translate
from typing import Any, Protocol

from holdtight.base.plan import Batch, Fan, LinkDown, Plan, ServerSaid, Step, Wish
from holdtight.base.values import LockInfo, Owner
from holdtight.core.again import read_again
from holdtight.core.inspect import Records, named, owners_in, records_of
from holdtight.core.inspect_quorum import judge, records_on
from holdtight.core.nodes import ask_all, too_few

__all__ = ["Listing", "QuorumListing", "literal_prefix"]

INSPECTIONS = 25
"""How many names one write inspects by script: half a millisecond of the server's time."""
GLANCES = 100
"""How many names one write reads plainly, which takes half as long."""


class Surveying(Protocol):
    first: bytes
    """The cursor to begin with, which is also that of the end."""

    def scan_step(self, cursor: bytes, prefix: str) -> Step: ...
    def held_step(self, names: Sequence[str]) -> Step: ...
    def glance_steps(self, name: str) -> tuple[Step, Step]: ...
    def glanced(self, name: str, value: Any, left: Any) -> LockInfo | None: ...
    def inspect_step(self, name: str) -> Step: ...
    def restarted(self, cursor: bytes) -> bytes:
        """The cursor to begin with again after a broken connection."""
        ...

    def passed_over(self, cursor: bytes, down: LinkDown) -> bytes:
        """The next server's cursor after one that cannot be asked. Raises `down` if there are no others."""
        ...

    def looked_again(self) -> Step | None:
        """At the end: learns whether anything has moved meanwhile. It is answered with LinkDown."""
        ...

    def rest(self) -> bytes:
        """The cursor of a server that something has moved to since the beginning, else the first."""
        ...

    def failure(self) -> LinkDown | None:
        """At the end: names the servers that could not be asked."""
        ...


def literal_prefix(pattern: str) -> str:
    """What every matching name starts with."""
    found = re.match(r"[^*?\[]*", pattern)
    return found[0] if found else ""


class BaseListing:
    """`done` after the last page."""

    done = False

    def __init__(self, survey: Surveying, records: Records, pattern: str, entered: dict[str, int]) -> None:
        self._survey = survey
        self._records = records
        self._prefix = literal_prefix(pattern)
        self._matches = re.compile(translate(pattern)).match  # as fnmatchcase
        self._entered = entered
        self._seen: set[str] = set()
        self._cursor = survey.first

    def _unseen(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name not in self._seen and self._matches(name)]


class Listing(BaseListing):
    """On one server, or on those of a cluster, one after another."""

    _over = False

    def page(self) -> Plan[list[LockInfo]]:
        """The next locks that are held or waited for; none only at the end."""
        infos: list[LockInfo] = []
        while not infos and not self._over:
            cursor = self._cursor
            try:
                found = self._unseen((yield from self._scanned()))
                held: list[str] = (yield from read_again(self._survey.held_step(found))) if found else []
                infos += yield from self._inspected(held)
            except LinkDown as down:
                self._cursor = self._survey.passed_over(cursor, down)
            else:
                self._seen.update(held)
            if self._cursor == self._survey.first:
                yield from self._ended()
        failed = self._survey.failure() if self._over else None
        if failed is not None and not infos:
            raise failed
        self.done = self._over and failed is None
        return (yield from self._named(infos))

    def _ended(self) -> Generator[Wish, Any, None]:
        """All servers have been asked, for the time being."""
        step = self._survey.looked_again()
        if step is not None:
            try:
                yield step
            except LinkDown:
                self._cursor = self._survey.rest()
        self._over = self._cursor == self._survey.first

    def look(self, names: Sequence[str]) -> Plan[list[LockInfo]]:
        """Those of these locks that are held or waited for."""
        return (yield from self._named((yield from self._inspected(names))))

    def _inspected(self, names: Sequence[str]) -> Generator[Wish, Any, list[LockInfo]]:
        """Most locks have one holder, and nobody waits. Two plain reads show those, at a tenth of what the script costs
        the server. The script reads the others."""
        infos: list[LockInfo] = []
        rest: list[str] = []
        for at in range(0, len(names), GLANCES):
            some = names[at : at + GLANCES]
            steps = [step for name in some for step in self._survey.glance_steps(name)]
            said: list[Any] = yield from read_again(Batch(steps))
            for name, value, left in zip(some, said[::2], said[1::2], strict=True):
                info = self._survey.glanced(name, value, left)
                if info is None:
                    rest.append(name)
                elif info.holders:
                    infos.append(info)
        for at in range(0, len(rest), INSPECTIONS):
            steps = [self._survey.inspect_step(name) for name in rest[at : at + INSPECTIONS]]
            said = yield from read_again(Batch(steps))
            infos += [each for each in said if isinstance(each, LockInfo) and (each.holders or each.waiters)]
        return infos

    def _scanned(self) -> Generator[Wish, Any, list[str]]:
        try:
            cursor, names = yield self._survey.scan_step(self._cursor, self._prefix)
        except LinkDown as down:
            if not down.stale:
                raise
            cursor, names = yield self._survey.scan_step(self._survey.restarted(self._cursor), self._prefix)
        self._cursor = cursor
        return list(names)

    def _named(self, infos: list[LockInfo]) -> Generator[Wish, Any, list[LockInfo]]:
        """Adds what the clients' records say: one request for all."""
        holders: list[Owner] = []
        waiters: list[Owner] = []
        for info in infos:
            owners, count = owners_in(info), len(info.holders)
            holders += owners[:count]
            waiters += owners[count:]
        if not holders and not waiters:
            return infos
        found = yield from records_of(self._records, holders + waiters, len(holders))
        about_holders, about_waiters = iter(found[: len(holders)]), iter(found[len(holders) :])
        return [
            named(
                info,
                [next(about_holders) for _ in info.holders] + [next(about_waiters) for _ in info.waiters],
                self._entered,
            )
            for info in infos
        ]


class QuorumListing(BaseListing):
    """On a quorum: the names that a majority of nodes says are held. A held lock has a vote on at least one node of any
    majority, so it is enough to scan a majority."""

    def __init__(
        self,
        survey: Surveying,
        records: Records,
        pattern: str,
        entered: dict[str, int],
        nodes: Sequence[str],
        majority: int,
    ) -> None:
        super().__init__(survey, records, pattern, entered)
        self._nodes = nodes
        self._majority = majority
        self._cursors: list[bytes | None] = [survey.first] * len(nodes)
        """None for a node that is read to its end, or has failed."""
        self._failed: dict[int, Any] = {}

    def page(self) -> Plan[list[LockInfo]]:
        infos: list[LockInfo] = []
        while not infos and not self.done:
            found = self._unseen((yield from self._scanned()))
            if not found:
                continue
            held: list[Any] = yield self._fan(self._survey.held_step(found))
            for name in found:
                if sum(1 for each in held if isinstance(each, list) and name in each) < self._majority:
                    continue
                self._seen.add(name)
                infos += yield from self._inspected(name)
        return (yield from self._named(infos))

    def look(self, names: Sequence[str]) -> Plan[list[LockInfo]]:
        """Those of these locks that are held."""
        infos: list[LockInfo] = []
        for name in names:
            infos += yield from self._inspected(name)
        return (yield from self._named(infos))

    def _inspected(self, name: str) -> Generator[Wish, Any, list[LockInfo]]:
        said: list[Any] = yield self._fan(self._survey.inspect_step(name))
        info = judge(name, self._nodes, said, self._majority)
        return [info] if info.holders else []

    def _named(self, infos: list[LockInfo]) -> Generator[Wish, Any, list[LockInfo]]:
        holders = [owner for info in infos for owner in owners_in(info)]
        if not holders:
            return infos
        about = iter((yield from records_on(self._records.records_step, holders, len(self._nodes))))
        return [named(info, [next(about) for _ in info.holders], self._entered) for info in infos]

    def _scanned(self) -> Generator[Wish, Any, list[str]]:
        steps = [None if each is None else self._survey.scan_step(each, self._prefix) for each in self._cursors]
        said: list[Any] = yield self._fan(steps)
        names: list[str] = []
        for at, answer in enumerate(said):
            if steps[at] is None:
                continue
            if isinstance(answer, LinkDown | ServerSaid):
                self._failed[at], self._cursors[at] = answer, None
                continue
            cursor, found = answer
            self._cursors[at] = None if cursor == self._survey.first else cursor
            names += found
        if len(self._nodes) - len(self._failed) < self._majority:
            failed = [self._failed.get(at) for at in range(len(self._nodes))]
            raise too_few(self._nodes, failed, self._majority, lambda each: each is None, "answered")
        self.done = not any(self._cursors)
        return names

    def _fan(self, steps: "Step | list[Step | None]") -> Fan:
        return ask_all(steps if isinstance(steps, list) else [steps] * len(self._nodes))
