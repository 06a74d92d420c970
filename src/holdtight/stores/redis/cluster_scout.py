"""The scout of a cluster: one thread per place in use that learns which server has which slot.

A *round* asks all known nodes at once for CLUSTER SLOTS, each in a thread of its own, so that a dead or hung node
delays nobody. A round begins when a caller needs to know, when an answer, a broken connection or a silence raises
doubt, and every half minute. While a server that should have slots does not answer, rounds go on, at first every tenth
of a second, then five times a second: a failover must not be learned of much later than it happens.

Nodes may disagree for a moment. Of different answers about a slot the one of most nodes counts; among equals, that of a
node which claims the slot for itself.
"""

import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base import process
from holdtight.base.callbacks import report
from holdtight.base.clock import boottime
from holdtight.base.plan import NO_THREAD, LinkDown, ServerSaid
from holdtight.stores.redis.connect import greeted
from holdtight.stores.redis.handshake import Greeting, Handshake
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.rounds import SILENT, THREAD_NAME, Rounds
from holdtight.stores.redis.slots import SLOTS, Endpoint, read_slots

if TYPE_CHECKING:
    from holdtight.config.credentials import Login
    from holdtight.stores.redis.cluster import ClusterPlace

__all__ = ["ClusterScout", "agreed_on"]

ASK_NODES_SECONDS = 30.0
FIRST_PAUSE = 0.1
LONG_PAUSE = 1.0
HASTE_SECONDS = 15.0
"""For this long after a doubt arose, the pause between rounds is FIRST_PAUSE, then LONG_PAUSE; but WATCHFUL_PAUSE while
a server with slots is silent."""
WATCHFUL_PAUSE = 0.2
WATCHFUL_SECONDS = 120.0
"""Eight times the usual `cluster-node-timeout`: by then another server has taken over, if any will."""
LATE_NODE_SECONDS = 0.1
"""How long a round waits for the other nodes once one has answered."""
ANSWER_SECONDS = 1.0
IDLE_LOOK = 0.2
"""How often it is looked whether the place is in use, and whether a server leaves something unanswered."""
SLOW_SECONDS = 0.2
"""A server that has not answered for this long may hang. Callers and the keeper wait longer, up to two seconds; a
failover may be over by then."""
SLOW_AGAIN = 1.0
"""How often a server that is only slow raises doubt."""
_SLOTS = command("CLUSTER", "SLOTS")

Table = list[Endpoint | None]


def greet_node(login: "Login | None", name: str | None) -> Greeting:
    auth = ["AUTH", login.user or "default", login.password] if login else []
    answers = yield command("HELLO", 3, *auth, "SETNAME", name or f"holdtight-{os.getpid()}-scout"), 1
    if isinstance(answers[0], hiredis.ReplyError):
        raise ServerSaid(str(answers[0]))
    return Handshake(3, b"")


def agreed_on(told: dict[Endpoint, Table]) -> Table:
    """One table from those of several nodes."""
    distinct: list[Table] = []
    count: list[int] = []
    for table in told.values():
        if table in distinct:
            count[distinct.index(table)] += 1
        else:
            distinct.append(table)
            count.append(1)
    merged = list(distinct[0])
    for slot, found in enumerate(zip(*distinct, strict=True)):
        if found.count(found[0]) == len(found):
            continue
        votes = Counter[Endpoint]()
        for each, times in zip(found, count, strict=True):
            if each is not None:
                votes[each] += times
        if votes:
            merged[slot] = max(votes, key=lambda each: (votes[each], each in told and told[each][slot] == each))
    return merged


class _Watched:
    """One node: its connection, and whether a thread asks it at the moment."""

    def __init__(self) -> None:
        self.link: SocketLink | None = None
        self.busy = False
        self.answer: tuple[Table, set[Endpoint]] | LinkDown | ServerSaid | None = None


class ClusterScout(Rounds):
    def __init__(self, place: "ClusterPlace") -> None:
        self._place = place
        self.known = False
        """Whether any node has told the slots."""
        self._begin()
        process.tell_of_fork(self)

    def _begin(self) -> None:
        self._begin_rounds()
        self._watched: dict[Endpoint, _Watched] = {}
        self._doubted_at = float("-inf")
        self._in_doubt = self._silent = False
        self._doubts = 0
        self._began = self._slow_at = float("-inf")

    def after_fork(self) -> None:
        """The child knows the slots of its parent, but has neither its connections nor its thread."""
        self._begin()

    # From any thread.

    def ask(self, until: float) -> None:
        """Returns after a round that began now. Raises LinkDown or ServerSaid if no node says."""
        with self._asked(until, "node of the cluster"):
            return

    def doubt(self) -> None:
        """Asks soon: what a server said, or that it said nothing, may mean that slots are elsewhere."""
        with self._changed:
            now = boottime()
            self._doubts += 1
            if not self._in_doubt:
                self._in_doubt, self._doubted_at = True, now
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    def attend(self) -> None:
        """A connection is being made, to a server that may hang. The thread may have ended just before: nothing was in
        use for a moment."""
        with self._changed:
            if self._thread is None:
                self._start()

    def leave(self) -> None:
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def _want(self) -> int:
        self._wanted += 1
        self._leaving = False
        if self._thread is None:
            self._start()
        self._changed.notify_all()
        return max(self._wanted, self._round + 1)

    def _start(self) -> None:
        self._thread = process.start_thread(self._run, THREAD_NAME)

    # In the scout's thread.

    def _run(self) -> None:
        while True:
            try:
                if not self._wait():
                    return
                self._ask_all()
            except Exception as error:
                report("the scout stumbled and goes on", error)
                threading.Event().wait(FIRST_PAUSE)  # the error may recur in every turn

    def _wait(self) -> bool:
        """Until a round is due. False once the place is in use no more."""
        with self._changed:
            while True:
                now = boottime()
                if self._wanted > self._finished or now >= self._due(now):
                    return True
                if not self._askers and not self._place.in_use():
                    self._thread = None
                    self._let_go()
                    return False
                if not self._in_doubt and now >= self._slow_at + SLOW_AGAIN and self._place.hears_nothing(SLOW_SECONDS):
                    self._slow_at = now
                    self.doubt()
                    continue
                look = 0.1 if self._leaving else IDLE_LOOK
                self._changed.wait(max(0.0, min(self._due(now) - now, look)))

    def _due(self, now: float) -> float:
        if not self._in_doubt:
            return self._began + ASK_NODES_SECONDS
        since = now - self._doubted_at
        if since < HASTE_SECONDS:
            return self._began + FIRST_PAUSE
        return self._began + (WATCHFUL_PAUSE if self._silent and since < WATCHFUL_SECONDS else LONG_PAUSE)

    def _let_go(self) -> None:
        for each in self._watched.values():
            if each.link is not None and not each.busy:
                each.link.close()
                each.link = None

    def _ask_all(self) -> None:
        with self._changed:
            self._wanted = max(self._wanted, self._finished + 1)
            self._round = self._wanted
            doubted, doubts = self._in_doubt, self._doubts
        self._began = began = boottime()
        places = self._place.whereabouts()
        asked: dict[Endpoint, _Watched] = {}
        for where in places:
            each = self._watched.setdefault(where, _Watched())
            if not each.busy:
                each.busy, each.answer = True, None
                asked[where] = each
                self._ask_one(where, each)
        told = self._collect(asked, began)
        if told:
            table = agreed_on({where: answer[0] for where, answer in told.items()})
            nodes = {node for answer in told.values() for node in answer[1]}
            self._place.learn(table, nodes, began)
            masters = {each for each in table if each is not None}
            silent = any(each not in told for each in masters) or any(each is None for each in table)
        else:
            silent = True
        self._forget({*places, *(node for answer in told.values() for node in answer[1])})
        with self._changed:
            self.known = self.known or bool(told)
            self._error = None if told else self._failure()
            self._finished, self._silent = self._round, silent
            # What raised a doubt meanwhile may have changed after the nodes had answered.
            self._in_doubt = not told or (silent and doubted) or self._doubts > doubts
            if not self._in_doubt:
                self._let_go()
            self._changed.notify_all()

    def _collect(self, asked: dict[Endpoint, _Watched], began: float) -> "dict[Endpoint, tuple[Table, set[Endpoint]]]":
        """Waits for the answers: for all of them, or a moment after the first good one."""
        told: dict[Endpoint, tuple[Table, set[Endpoint]]] = {}
        first = float("inf")
        with self._changed:
            while True:
                for where, each in asked.items():
                    if isinstance(each.answer, tuple) and where not in told:
                        told[where] = each.answer
                        first = min(first, boottime())
                now, until = boottime(), min(first + LATE_NODE_SECONDS, began + ANSWER_SECONDS)
                if now >= until or not any(each.busy for each in asked.values()):
                    return told
                self._changed.wait(until - now)

    def _forget(self, known: set[Endpoint]) -> None:
        for where in [where for where, each in self._watched.items() if where not in known and not each.busy]:
            gone = self._watched.pop(where)
            if gone.link is not None:
                gone.link.close()

    def _failure(self) -> LinkDown | ServerSaid:
        errors = [(f"{where[0]}:{where[1]}", each.answer) for where, each in self._watched.items()]
        for endpoint, error in errors:
            if isinstance(error, ServerSaid):
                return ServerSaid(f"{error}" if str(error).startswith("ERR") else f"{endpoint}: {error}")
        causes = "; ".join(f"{endpoint}: {error or SILENT}" for endpoint, error in errors)
        return LinkDown(f"no node of the cluster can be asked for its slots ({causes})", sent=False)

    def _ask_one(self, where: Endpoint, each: _Watched) -> None:
        changed = self._changed

        def ask() -> None:
            answer: Any
            try:
                answer = self._answer(where, each)
            except (LinkDown, ServerSaid) as error:
                answer = error
            except Exception as error:  # credentials come from user code
                answer = LinkDown(f"{type(error).__name__}: {error}", sent=False)
            if not isinstance(answer, tuple) and each.link is not None:
                each.link.close()
                each.link = None
            with changed:
                each.answer, each.busy = answer, False
                if self._thread is None and each.link is not None:
                    each.link.close()
                    each.link = None
                changed.notify_all()

        try:
            process.start_thread(ask, "holdtight-connect")
        except RuntimeError as error:
            each.answer, each.busy = LinkDown(f"{NO_THREAD}: {error}", sent=False), False

    def _answer(self, where: Endpoint, each: _Watched) -> "tuple[Table, set[Endpoint]]":
        if each.link is None:
            address = self._place.target.at(*where)
            each.link = greeted(
                address,
                lambda login: greet_node(login, address.client_name),
                ANSWER_SECONDS,
                self._place.tls_for(address),
            )
        reply = each.link.call(_SLOTS, ANSWER_SECONDS)
        if isinstance(reply, hiredis.ReplyError):
            raise ServerSaid(str(reply))
        table, nodes = read_slots(reply, where[0])
        assert len(table) == SLOTS
        if not nodes:
            raise LinkDown("it knows of no server with slots", sent=False)
        return table, nodes
