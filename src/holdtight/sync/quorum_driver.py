"""Runs plans on a quorum by polling: the calling thread asks all nodes at once (see base/plan.py)."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from holdtight.base.plan import (
    NO_ANSWER,
    SLOW_TO_CONNECT,
    Bell,
    Fan,
    LinkDown,
    Park,
    ServerSaid,
    Step,
    Wish,
    client_closed,
)
from holdtight.stores.redis.client_records import record_request
from holdtight.stores.redis.script import with_script_body
from holdtight.sync.driver import PlanRunner
from holdtight.sync.node_connection import NOBODYS, Answers, CallerWakePipe, NodeConnection, PendingReply, Pool, may_ask
from holdtight.sync.node_group import GroupPool, NodeGroup

__all__ = ["FanDriver"]

WITHOUT_PIPE_SECONDS = 0.1


class FanDriver(PlanRunner):
    """Runs one plan: has a connection to each node, taken when first needed. A context manager."""

    def __init__(
        self, groups: GroupPool, connections: Sequence[NodeConnection | None] = (), *, group: NodeGroup | None = None
    ) -> None:
        """`connections` carried earlier, unanswered requests. The driver takes their node group if it is idle."""
        self._groups = groups
        self._pools = groups.pools
        self._clock = groups.place.clock
        self._group = groups.take(connections) if group is None else group
        self._fresh = False
        self._wake_pipe: CallerWakePipe | None = None

    def __enter__(self) -> "FanDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.broken_off:
            self._group.break_off()
        else:
            self._groups.give(self._group, self._clock())
        if self._wake_pipe is not None:
            self._groups.wake_pipes.discard(self._wake_pipe)
            for pool in self._pools:
                pool.stop_waiting(self._wake_pipe)
            self._wake_pipe.close()

    def _carry_out(self, wish: Wish) -> Any:
        if isinstance(wish, Fan):
            return self._fan(wish)
        if isinstance(wish, Park):
            return self._park(wish)
        raise TypeError("a plan on a quorum asks all nodes or none")

    # Sending.

    def _fan(self, fan: Fan) -> Any:
        collected = Answers(len(self._pools))
        try:
            self._collect(fan, collected)
            if collected.forgotten:  # other nodes may lack the script too, and their NOSCRIPT may never be read
                self._leave_unanswered(fan, collected)
        except BaseException:
            self._leave_unanswered(fan, collected)  # it is not known whether the requests were sent
            raise
        finally:
            collected.wanted = False
        return fan.read(collected.answers)

    def _leave_unanswered(self, fan: Fan, collected: Answers) -> None:
        """Hands the undo steps that are unanswered to the keeper."""
        for index, step in enumerate(fan.steps):
            if step is not None and step.undo and collected.answers[index] is None:
                self._pools[index].leave_to_the_keeper(step.otherwise or step)

    def _collect(self, fan: Fan, collected: Answers) -> None:
        clock = self._clock
        answers = collected.answers
        now = clock()
        if not self._fresh:
            self._fresh = True
            self._group.refresh(now)
        until = now + fan.patience
        unsent: dict[int, Step] = {}
        for index, step in enumerate(fan.steps):
            if step is not None:
                self._ask(fan, index, step, collected, unsent, now)
        certain = fan.certain
        while not certain(answers):
            left = until - clock()
            if left <= 0:
                self._lose_patience(fan, answers, unsent)
                break
            self._group.wait(left, self._wake_pipe if unsent else None)
            if unsent:
                now = clock()
                for index, step in list(unsent.items()):
                    del unsent[index]
                    self._ask(fan, index, step, collected, unsent, now)
        for index, step in unsent.items():
            pool = self._pools[index]
            pool.stop_waiting(self._listen())
            if step.undo:
                pool.leave_to_the_keeper(step)

    def _ask(self, fan: Fan, index: int, step: Step, collected: Answers, unsent: dict[int, Step], now: float) -> None:
        pool = self._pools[index]
        connection = self._group.by_node[index]
        if connection is None or not connection.alive:
            connection = pool.take(self._wake_pipe)
            if connection is not None:
                self._group.put(index, connection)
        if step.otherwise is not None and (
            connection is None or fan.after is None or connection is not fan.after[index]
        ):
            step = step.otherwise
        if connection is None:
            if pool.connect_soon(self._listen(), now):
                unsent[index] = step
                return
            self._refuse(pool, index, step, collected.answers, pool.breaker.answer())
            return
        if connection.pending:
            why_not = may_ask(connection, step, now)
            if why_not:
                self._refuse(pool, index, step, collected.answers, LinkDown(why_not, sent=False))
                return
        client = pool.place.client
        if now > client.recorded_until and client.announcement_due():
            record = record_request(client)
            connection.ask(PendingReply(NOBODYS, Step(record, None, _nothing, patience=1.0), record, now))
            pool.place.runtime.keeper.watch(pool.place)
        if fan.connections is not None:
            fan.connections[index] = connection
        request = step.packed(connection.link.inbox_word)
        if step.undo and step.script not in pool.knows:
            request = with_script_body(request)
        connection.ask(PendingReply(collected, step, request, now))

    def _refuse(self, pool: Pool, index: int, step: Step, answers: list[Any], cause: LinkDown | ServerSaid) -> None:
        if step.undo:
            pool.leave_to_the_keeper(step)
        answers[index] = cause

    def _lose_patience(self, fan: Fan, answers: list[Any], unsent: dict[int, Step]) -> None:
        for index, step in enumerate(fan.steps):
            if step is not None and answers[index] is None:
                slow = SLOW_TO_CONNECT if index in unsent else NO_ANSWER
                answers[index] = LinkDown(slow, sent=index not in unsent, silent=True)

    # Waiting.

    def _park(self, park: Park) -> Bell | None:
        """Waits until any node rings, or until `park.until`. Raises LinkDown once the client is closed: a thread that
        starts to park either is seen by `close`, or sees `closed`."""
        try:
            wake_pipe = self._listen()
            self._groups.wake_pipes.add(wake_pipe)
            longest = float("inf")
        except OSError:  # no descriptor is left for a wake pipe: look now and then whether the client was closed
            wake_pipe, longest = None, WITHOUT_PIPE_SECONDS
        while True:
            if self._groups.closed:
                raise client_closed()
            for connection in self._group.by_node:
                if connection is not None and park.owner in connection.bells:
                    connection.bells.discard(park.owner)
                    return Bell()
            left = park.until - self._clock()
            if left <= 0:
                return None
            self._group.wait(min(left, longest), wake_pipe)

    def _listen(self) -> CallerWakePipe:
        if self._wake_pipe is None:
            self._wake_pipe = CallerWakePipe()
        return self._wake_pipe


def _nothing(reply: Any, sent: float) -> None: ...
