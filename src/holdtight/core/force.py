"""The plans behind `force_release` and `audit`.

`force_release` first reads which owners hold the name. Then one request names these owners and a fresh id. So it never
takes the lock from a later holder, even if the reply is lost and the plan asks again. A semaphore or a read-write lock
may have more holders than one inspection shows: then the plan reads all of them, and sends several requests. Each has
an id and a record of its own.

The next holder waits meanwhile, so on one server the plan does not read the records of the holders' clients (host, pid)
before it acts: the script that acts reads them.
"""

import base64
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from holdtight.base.operations import AuditRecord, ForcedRelease
from holdtight.base.plan import Plan, ServerSaid, Step, Wish
from holdtight.base.values import LISTED, Holder, LockInfo, Owner, owner_text
from holdtight.core.again import MOST_TRIES, asked_in_time, read_again
from holdtight.core.ending import Sweeping, sweep
from holdtight.core.inspect import Records, records_of, told
from holdtight.core.nodes import ask_all, too_few

__all__ = ["Order", "audit", "audit_by_name", "audit_quorum", "force", "force_quorum"]

MOST_READS = 5
"""A plan stops to read again if there are ever more holders."""

Look = Callable[[int], Plan[LockInfo]]
"""Inspects the name, and shows at most so many holders."""


class Forces(Protocol):
    def force_step(
        self,
        name: str,
        holders: Sequence[tuple[Owner, Holder]],
        *,
        about: dict[str, Any],
        now: float,
        floor: int | None = None,
        reading: bool = False,
    ) -> Step:
        """`reading`: the answer has what the records say of each owner."""
        ...

    def audit_step(self, limit: int | None) -> Step: ...


class Order:
    """What an operator asks for. `about` goes into the audit record."""

    def __init__(self, about: dict[str, Any], owner: str | None) -> None:
        self.about = about
        self.owner = owner

    def held(self, info: LockInfo) -> list[tuple[Owner, Holder]]:
        found = [each for each in info.holders if self.owner is None or each.owner == self.owner]
        if found:
            self.about["kind"] = found[0].kind.value
        return [(base64.urlsafe_b64decode(each.owner), each._replace(entered=None)) for each in found]

    def about_batch(self, batch: int) -> dict[str, Any]:
        """For one of several requests: the id of each is its own."""
        return {**self.about, "id": f"{(int(self.about['id'], 16) + batch) % (1 << 128):032x}"}

    def record(self, done: ForcedRelease, holders: Sequence[tuple[Owner, Holder]]) -> AuditRecord:
        about = self.about
        read = dict(zip(done.owners, done.about, strict=False))
        hit = [(owner, each) for owner, each in holders if owner in done.owners]
        return AuditRecord(
            id=about["id"],
            at=done.at,
            action=about["action"],
            name=about["name"],
            kind=holders[0][1].kind,
            holders=tuple(told(each, read[owner], {}) if owner in read else each for owner, each in hit),
            fence=done.fence,
            next=owner_text(done.next) if done.next else None,
            by=about["by"],
            reason=about["reason"],
            host=about["host"],
            pid=about["pid"],
        )


def _held(look: Look, order: Order) -> Generator[Wish, Any, tuple[LockInfo, list[list[tuple[Owner, Holder]]]]]:
    """All holders that the order is about, as many at once as a request takes."""
    most = LISTED
    info = yield from look(most)
    for _ in range(MOST_READS):
        if info.holding <= most:
            break
        most = 2 * info.holding
        info = yield from look(most)
    holders = order.held(info)
    return info, [holders[at : at + LISTED] for at in range(0, len(holders), LISTED)]


def force(
    forces: Forces,
    sweeping: Sweeping,
    look: Look,
    order: Order,
    clock: Callable[[], float],
    records: Records | None = None,
) -> Plan[AuditRecord | None]:
    """Returns None if nothing is held, or no longer held when the request arrives. With `records`, `look` shows the
    name's state alone."""
    _, batches = yield from _held(look, order)
    acts: list[AuditRecord] = []
    more = False
    for batch, holders in enumerate(batches):
        done, named = yield from _force_some(forces, holders, order.about_batch(batch), clock, records)
        more = more or done.more
        if done.owners:
            acts.append(order.record(done, named))
    if more:
        yield from sweep(sweeping, batches[0][0][0])
    return _first_of(acts)


def _force_some(
    forces: Forces,
    holders: Sequence[tuple[Owner, Holder]],
    about: dict[str, Any],
    clock: Callable[[], float],
    records: Records | None,
) -> Generator[Wish, Any, tuple[ForcedRelease, Sequence[tuple[Owner, Holder]]]]:
    def step() -> Step:
        return forces.force_step(about["name"], holders, about=about, now=clock(), reading=records is not None)

    try:
        return (yield from asked_in_time(step)), holders
    except ServerSaid as said:
        if records is None or not said.lacks_right:
            raise
    # Perhaps this user may not read all records: the plan reads those that it may, and the script none.
    owners = [owner for owner, _ in holders]
    found = yield from records_of(records, owners, len(owners))
    holders = [(owner, told(each, one, {})) for (owner, each), one in zip(holders, found, strict=True)]
    records = None
    return (yield from asked_in_time(step)), holders


def _first_of(records: list[AuditRecord]) -> AuditRecord | None:
    """One record for the caller: its fence is above those of all holders, as all of them held when the first request
    arrived."""
    if not records:
        return None
    following = next((each.next for each in records if each.next is not None), None)
    holders = tuple(holder for each in records for holder in each.holders)
    return records[0]._replace(holders=holders, next=following)


def force_quorum(
    forces: Sequence[Forces],
    names: Sequence[str],
    majority: int,
    look: Look,
    order: Order,
    proposal: Callable[[float], int],
    clock: Callable[[], float],
) -> Plan[AuditRecord | None]:
    """Raises NoQuorum unless a majority has done it. All nodes get the same fence, so that the next grant has a higher
    one, whichever majority gives it."""
    info, batches = yield from _held(look, order)
    records: list[AuditRecord] = []
    last = info.fence or 0
    for batch, holders in enumerate(batches):
        last = max(last + 1, proposal(clock()))
        about = order.about_batch(batch)
        said: list[Any] = [None] * len(forces)
        for _ in range(MOST_TRIES):
            now = clock()
            steps = [
                None
                if isinstance(each, ForcedRelease)
                else one.force_step(about["name"], holders, about=about, now=now, floor=last)
                for one, each in zip(forces, said, strict=True)
            ]
            answers: list[Any] = yield ask_all(steps)
            said = [old if step is None else new for old, step, new in zip(said, steps, answers, strict=True)]
            if sum(isinstance(each, ForcedRelease) for each in said) >= majority:
                break
        done = [each for each in said if isinstance(each, ForcedRelease)]
        if len(done) < majority:
            raise too_few(names, said, majority, lambda each: isinstance(each, ForcedRelease), "done")
        hit = [each for each in done if each.owners]
        if hit:
            best = max(hit, key=lambda each: each.fence)
            last = max(last, best.fence)
            best = best._replace(owners=tuple({owner for each in hit for owner in each.owners}))
            records.append(order.record(best, holders))
    return _first_of(records)


def audit(forces: Forces, limit: int, name: str | None) -> Plan[list[AuditRecord]]:
    step = forces.audit_step(limit if name is None else None)
    found: list[AuditRecord] = yield from read_again(step)
    return _chosen(found, limit, name)


def audit_by_name(survey: Any, forces: Callable[[str], Any], limit: int, name: str | None) -> Plan[list[AuditRecord]]:
    """For a store that keeps records per name: reads those of one name, or of all names that have any."""
    names, cursor = list[str](), None
    if name is not None:
        names.append(name)
    while name is None and cursor != survey.first:
        cursor, some = yield survey.audited_step(cursor or survey.first)
        names += some
    found: list[AuditRecord] = []
    for each in dict.fromkeys(names):
        found += yield forces(each).audit_of_step(each, limit)
    return _chosen(sorted(found, key=lambda record: record.at, reverse=True), limit, name)


def audit_quorum(
    forces: Sequence[Forces], names: Sequence[str], majority: int, limit: int, name: str | None
) -> Plan[list[AuditRecord]]:
    """The records of all nodes that answer, each once."""
    said: list[Any] = yield ask_all([each.audit_step(limit if name is None else None) for each in forces])
    told: list[list[AuditRecord]] = [each for each in said if isinstance(each, list)]
    if len(told) < majority:
        raise too_few(names, said, majority, lambda each: isinstance(each, list), "answered")
    best: dict[str, AuditRecord] = {}
    for record in (record for records in told for record in records):
        if record.id not in best or record.fence > best[record.id].fence:
            best[record.id] = record
    return _chosen(sorted(best.values(), key=lambda each: each.at, reverse=True), limit, name)


def _chosen(found: list[AuditRecord], limit: int, name: str | None) -> list[AuditRecord]:
    return [record for record in found if name is None or record.name == name][:limit]
