"""Runs plans on a quorum by polling: the calling thread asks all nodes at once (see base/plan.py)."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from holdtight.base.plan import Bell, Fan, LinkDown, Park, ServerSaid, Step, Wish, client_closed
from holdtight.stores.redis.handshake import record_request
from holdtight.stores.redis.script import with_script_body
from holdtight.sync.driver import PlanRunner
from holdtight.sync.node_connection import NOBODYS, Answers, Ear, NodeConnection, PendingReply, Pool, may_ask
from holdtight.sync.node_group import GroupPool, NodeGroup

__all__ = ["FanDriver"]

LOOK_SECONDS = 0.1


class FanDriver(PlanRunner):
    """Runs one plan: has a connection to each node, taken when first needed. A context manager."""

    def __init__(
        self, fleet: GroupPool, ways: Sequence[NodeConnection | None] = (), *, crew: NodeGroup | None = None
    ) -> None:
        """`ways`: the connections of earlier, unanswered requests. The driver takes their node group if it is idle."""
        self._fleet = fleet
        self._pools = fleet.pools
        self._clock = fleet.place.clock
        self._crew = fleet.take(ways) if crew is None else crew
        self._fresh = False
        self._ear: Ear | None = None

    def __enter__(self) -> "FanDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.broken_off:
            self._crew.break_off()
        else:
            self._fleet.give(self._crew, self._clock())
        if self._ear is not None:
            self._fleet.ears.discard(self._ear)
            self._ear.close()

    def _carry_out(self, wish: Wish) -> Any:
        if isinstance(wish, Fan):
            return self._fan(wish)
        if isinstance(wish, Park):
            return self._park(wish)
        raise TypeError("a plan on a quorum asks all nodes or none")

    # Sending.

    def _fan(self, fan: Fan) -> Any:
        sheet = Answers(len(self._pools))
        try:
            self._collect(fan, sheet)
            if sheet.forgotten:  # other nodes may lack the script too, and their NOSCRIPT may never be read
                self._leave_unanswered(fan, sheet)
        except BaseException:
            self._leave_unanswered(fan, sheet)  # it is not known whether the requests were sent
            raise
        finally:
            sheet.wanted = False
        return fan.read(sheet.answers)

    def _leave_unanswered(self, fan: Fan, sheet: Answers) -> None:
        """Hands the undo steps that are unanswered to the keeper."""
        for index, step in enumerate(fan.steps):
            if step is not None and step.undo and sheet.answers[index] is None:
                self._pools[index].leave_to_the_keeper(step.otherwise or step)

    def _collect(self, fan: Fan, sheet: Answers) -> None:
        clock = self._clock
        answers = sheet.answers
        now = clock()
        if not self._fresh:
            self._fresh = True
            self._crew.refresh(now)
        until = now + fan.patience
        hoped: dict[int, Step] = {}
        for index, step in enumerate(fan.steps):
            if step is not None:
                self._ask(fan, index, step, sheet, hoped, now)
        certain = fan.certain
        while not certain(answers):
            left = until - clock()
            if left <= 0:
                self._lose_patience(fan, answers, hoped)
                break
            self._crew.wait(left, self._ear if hoped else None)
            if hoped:
                now = clock()
                for index, step in list(hoped.items()):
                    if not self._pools[index].connecting or self._pools[index].idle:
                        del hoped[index]
                        self._ask(fan, index, step, sheet, hoped, now)
        for index, step in hoped.items():
            if step.undo:
                self._pools[index].leave_to_the_keeper(step)

    def _ask(self, fan: Fan, index: int, step: Step, sheet: Answers, hoped: dict[int, Step], now: float) -> None:
        pool = self._pools[index]
        wire = self._crew.wires[index]
        if wire is None or not wire.alive:
            wire = pool.take()
            if wire is not None:
                self._crew.put(index, wire)
        if step.otherwise is not None and (wire is None or fan.after is None or wire is not fan.after[index]):
            step = step.otherwise
        if wire is None:
            if pool.hope(self._listen(), now):
                hoped[index] = step
                return
            self._refuse(pool, index, step, sheet.answers, pool.breaker.answer())
            return
        if wire.pending:
            why_not = may_ask(wire, step, now)
            if why_not:
                self._refuse(pool, index, step, sheet.answers, LinkDown(why_not, sent=False))
                return
        client = pool.place.client
        if now > client.recorded_until and client.announcement_due():
            record = record_request(client)
            wire.ask(PendingReply(NOBODYS, Step(record, None, _nothing, patience=1.0), record, now))
            pool.place.runtime.keeper.watch(pool.place)
        if fan.ways is not None:
            fan.ways[index] = wire
        request = step.packed(wire.link.inbox_word)
        if step.undo and step.script not in pool.knows:
            request = with_script_body(request)
        wire.ask(PendingReply(sheet, step, request, now))

    def _refuse(self, pool: Pool, index: int, step: Step, answers: list[Any], cause: LinkDown | ServerSaid) -> None:
        if step.undo:
            pool.leave_to_the_keeper(step)
        answers[index] = cause

    def _lose_patience(self, fan: Fan, answers: list[Any], hoped: dict[int, Step]) -> None:
        for index, step in enumerate(fan.steps):
            if step is not None and answers[index] is None:
                slow = "connecting took too long" if index in hoped else "it did not answer in time"
                answers[index] = LinkDown(slow, sent=index not in hoped)

    # Waiting.

    def _park(self, park: Park) -> Bell | None:
        """Waits until any node rings, or until `park.until`. Raises LinkDown once the client is closed: a thread that
        starts to park either is seen by `close`, or sees `closed`."""
        try:
            ear = self._listen()
            self._fleet.ears.add(ear)
            longest = float("inf")
        except OSError:  # no descriptor is left for a wake pipe: look now and then whether the client was closed
            ear, longest = None, LOOK_SECONDS
        while True:
            if self._fleet.closed:
                raise client_closed()
            for wire in self._crew.wires:
                if wire is not None and park.owner in wire.bells:
                    wire.bells.discard(park.owner)
                    return Bell()
            left = park.until - self._clock()
            if left <= 0:
                return None
            self._crew.wait(min(left, longest), ear)

    def _listen(self) -> Ear:
        if self._ear is None:
            self._ear = Ear()
        return self._ear


def _nothing(reply: Any, sent: float) -> None: ...
