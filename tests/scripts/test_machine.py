"""Random sequences of verbs and of passing time: the scripts on a real server against the model.

The scripts use the test's clock (see clockwork.py) and stop after 8 looks instead of 200. `comparing.py` compares
every reply and, after each step, the whole state with the model. promises.py has what must be true without any model.
`HOLDTIGHT_EXAMPLES=5000` makes a long run, with other examples each time.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.verbs import attempt_cohort
from holdtight.stores.times import HEARTBEAT_MS, KEPT_MS
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.comparing import ComparedMachine
from tests.scripts.promises import Promises
from tests.scripts.twins import START, equipped_with, play
from tests.scripts.workbench import Inbox, owner
from tests.support.servers import RunningServer, StartServer

SWEEP = 8
HOUR = 3_600_000_000
IN_TIME = 2_000_000

INBOXES = [b"inbox 1", b"inbox 2", b"inbox 3"]
owners = st.sampled_from([owner(f"owner {n}") for n in range(5)])
inboxes = st.sampled_from([*INBOXES, b"nobody", b""])
ttls = st.sampled_from([1, 120, 500, 501, 30_000])
labels = st.sampled_from(["", "a label", "schöner Name"])
limits = st.sampled_from([0, 2, 4, 100, 100])
lateness = st.sampled_from([-1, 0, IN_TIME, IN_TIME, IN_TIME])
modes = st.sampled_from(["x", "r", "p"])
# How many, of how many: a limit may change from request to request.
amounts = st.sampled_from([(1, 1), (1, 2), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (1, 100), (5, 100)])
turns = st.integers(0, 11)
ordinals = st.sampled_from([0, 0, 1, 2, 3, 12])
memories = st.sampled_from([-1, 0, 1, 120, 2_000])
# Short, around each limit (trust, claim window, heartbeat, tail, markers), and long.
pauses = st.sampled_from([1, 999, 1_000, 119_000, 120_000, 121_000, 199_000, 200_000, 499_000, 500_000, 501_000]) | (
    st.sampled_from([2_000_000, 4_999_000, 5_000_000, 5_001_000, 9_999_999, 10_000_000, 10_001_000, 40_001_000])
)


class Machine(ComparedMachine):
    @initialize(
        micros=st.sampled_from([0, 1, 999_999]),
        habit=st.sampled_from(["x", "rx", "rrx", "p", "p", "rxp", "xp"]),
        tick=st.sampled_from([0, 1, 1]),
    )
    def begin(self, micros: int, habit: str, tick: int) -> None:
        self.desk.wire.call("FLUSHALL")
        for channel in INBOXES:
            self.inbox.subscribe(channel)
        self.inbox.rung()
        self.true_us, self.ahead, self.crowds = START + micros, 0, 0
        self.habit = habit
        """The usual kinds of this name: two kinds that take turns would mostly refuse each other."""
        self.tick = tick
        """µs from one request to the next: a fast path is for requests that come after the last fence."""
        self.begin_comparing()
        self.promises = Promises()
        self.model = Name(self.true_us, sweep=SWEEP, listening=set(INBOXES))
        self._set_clock()

    # The verbs

    @rule(
        who=owners, turn=turns, mode=modes, amount=amounts, ttl=ttls, limit=limits, label=labels, inbox=inboxes,
        late=lateness,
    )  # fmt: skip
    def ask(
        self,
        who: bytes,
        turn: int,
        mode: str,
        amount: tuple[int, int],
        ttl: int,
        limit: int,
        label: str,
        inbox: bytes,
        late: int,
    ) -> None:
        if turn:
            mode = self.habit[turn % len(self.habit)]
        self._ask(mode, who, amount, ttl=ttl, limit=limit, label=label, inbox=inbox, late=late)

    @rule(who=owners, turn=turns, amount=amounts, ttl=ttls, inbox=inboxes)
    def wait_in_line(self, who: bytes, turn: int, amount: tuple[int, int], ttl: int, inbox: bytes) -> None:
        self._ask(self.habit[turn % len(self.habit)], who, amount, ttl=ttl, inbox=inbox)

    @rule(who=owners, turn=turns, ttl=ttls, inbox=inboxes, late=lateness)
    def ask_for_a_range(self, who: bytes, turn: int, ttl: int, inbox: bytes, late: int) -> None:
        """Of fences, as with cohort=True; mostly by an owner that holds the name, or waits for it."""
        if turn and (self.model.holder or self.model.line):
            who = self.model.holder or self.model.line[0].owner
        self.time_passes(self.tick)
        limit = self.model.now_us + late
        reply = self.desk.attempt_cohort(who, ttl=ttl, inbox=inbox, not_after=limit)
        args = (b"%d" % ttl, b"", b"100", b"", inbox, b"%d" % limit, who)
        self._compare(self._in_full(reply), lambda: self._in_full(attempt_cohort(self.model, *args)))

    @precondition(lambda self: self.model.line)
    @rule(which=turns, more=st.integers(0, 1))
    def one_in_line_asks(self, which: int, more: int) -> None:
        """Mostly the first waiter; it asks for the same as before, or for more."""
        entry = self.model.line[which % len(self.model.line) if which > 6 else 0]
        amount = (entry.n + more, entry.permits + more)
        self._ask(entry.mode, entry.owner, amount, ttl=entry.ttl, inbox=entry.inbox)

    @precondition(lambda self: self._living())
    @rule(which=turns, ttl=ttls)
    def confirm(self, which: int, ttl: int) -> None:
        fence = self.model.last
        who, mode = self._one_of_the_living(which)
        lost = self.model.main is None
        self._ask(mode, who, (1, 1), ttl=ttl, inbox=INBOXES[0])
        assert lost or self.model.last == fence

    @rule(who=owners)
    def release(self, who: bytes) -> None:
        self._compare(self.desk.release(who), lambda: self.model.release(who))

    @precondition(lambda self: self._holding())
    @rule(which=turns)
    def release_a_holder(self, which: int) -> None:
        those = self._holding()
        self.release(those[which % len(those)])

    @rule(who=owners, ttl=ttls, late=lateness, ordinal=ordinals, marker=memories)
    def renew(self, who: bytes, ttl: int, late: int, ordinal: int, marker: int) -> None:
        limit, until = self.model.now_us + late, self.model.now + marker
        if ordinal:
            self.hash_end = max(self.hash_end, until)
        reply = self.desk.renew(who, ttl=ttl, not_after=limit, ordinal=ordinal, marker=until)
        how = {"marker": until, "ordinal": ordinal} if ordinal else {}
        self._compare(reply, lambda: self.model.renew(who, ttl=ttl, not_after=limit, **how))

    @precondition(lambda self: self._living())
    @rule(which=turns, ttl=ttls, ordinal=ordinals, marker=memories)
    def renew_a_holder(self, which: int, ttl: int, ordinal: int, marker: int) -> None:
        self.renew(self._one_of_the_living(which)[0], ttl, IN_TIME, ordinal, marker)

    @precondition(lambda self: self.model.line)
    @rule()
    def all_touch(self) -> None:
        for entry in list(self.model.line):
            self.touch(entry.owner, entry.inbox)

    @rule(who=owners, inbox=inboxes, kept=st.sampled_from([HEARTBEAT_MS, KEPT_MS]))
    def touch(self, who: bytes, inbox: bytes, kept: int = HEARTBEAT_MS) -> None:
        self.hash_end = max(self.hash_end, self.model.now + kept)
        self._compare(self.desk.touch(who, inbox, kept=kept), lambda: self.model.touch(who, inbox, kept))

    @rule(who=owners, marker=st.sampled_from([None, None, -1, 0, 1, 120, 2_000, 12_000, 3_600_000]))
    def withdraw(self, who: bytes, marker: int | None) -> None:
        until = 0 if marker is None else self.model.now + marker
        self.hash_end = max(self.hash_end, until)
        self._compare(self.desk.withdraw(who, until), lambda: self.model.withdraw(who, until))

    @precondition(lambda self: self._holding())
    @rule(which=turns, marker=st.sampled_from([None, None, 120, 2_000]))
    def withdraw_a_holder(self, which: int, marker: int | None) -> None:
        those = self._holding()
        self.withdraw(those[which % len(those)], marker)

    @rule(old=owners, new=owners, ttl=ttls, label=labels, late=lateness)
    def adopt(self, old: bytes, new: bytes, ttl: int, label: str, late: int) -> None:
        if self.model.main and self.model.main.owner and len(label) != 7:
            old = self.model.main.owner
        limit = self.model.now_us + late
        reply = self.desk.adopt(old, new, ttl=ttl, label=label, not_after=limit)
        self._compare(reply, lambda: self.model.adopt(old, new, ttl=ttl, label=label.encode(), not_after=limit))

    @rule(
        who=owners, turn=turns, ttl=ttls, label=labels, late=lateness, ordinal=ordinals,
        marker=st.none() | memories,
    )  # fmt: skip
    def downgrade(
        self, who: bytes, turn: int, ttl: int, label: str, late: int, ordinal: int, marker: int | None
    ) -> None:
        if turn and self._living():
            who, _ = self._one_of_the_living(turn)
        limit = self.model.now_us + late
        how: dict[str, Any] = {"ttl": ttl, "not_after": limit}
        if marker is None:
            reply = self.desk.downgrade(who, label=label, **how)
        else:
            until = self.model.now + marker
            self.hash_end = max(self.hash_end, until)
            reply = self.desk.downgrade(who, label=label, marker=f"{until}{ordinal or ''}", **how)
            how |= {"marker": until, "ordinal": ordinal}
        self._compare(reply, lambda: self.model.downgrade(who, label=label.encode(), **how))

    @rule(number=st.integers(SWEEP - 1, SWEEP + 3), inbox=inboxes, ttl=ttls, turn=turns)
    def many_come(self, number: int, inbox: bytes, ttl: int, turn: int) -> None:
        """More than one script may look at, in line or, if they fit, among the sharers. They never touch."""
        mode = self.habit[turn % len(self.habit)]
        for _ in range(number):
            self.crowds += 1
            self._ask(mode, owner(f"one of many {self.crowds}"), (1, 100), ttl=ttl, inbox=inbox)

    # By the fence or the inbox, for owners from outside

    @precondition(lambda self: self._holding())
    @rule(
        which=turns,
        off=st.sampled_from([0, 0, 0, -1, 1]),
        ttl=ttls,
        verb=st.sampled_from(["release", "renew", "downgrade"]),
    )
    def act_on_one_grant(self, which: int, off: int, ttl: int, verb: str) -> None:
        """Of a holder, dead or alive; also with the fence of another grant."""
        who = self._holding()[which % len(self._holding())]
        held = self.model.holders.get(who) or self.model.main
        assert held is not None
        fence, limit = held.fence + off, self.model.now_us + IN_TIME
        if verb == "release":
            self._compare(self.desk.release_grant(who, fence), lambda: self.model.release(who, fence))
        elif verb == "renew":
            reply = self.desk.renew_grant(who, fence, ttl, limit)
            self._compare(reply, lambda: self.model.renew(who, ttl=ttl, not_after=limit, fence=fence))
        else:
            reply = self.desk.downgrade_grant(who, fence, ttl, limit)
            self._compare(reply, lambda: self.model.downgrade(who, ttl=ttl, label=b"", not_after=limit, fence=fence))

    @rule(who=owners, turn=turns, inbox=st.sampled_from([*INBOXES, b"", b"*"]))
    def leave(self, who: bytes, turn: int, inbox: bytes) -> None:
        """The line, by way of one connection; mostly one that waits, or has been handed the name, by way of it."""
        if turn and self.model.line:
            entry = self.model.line[turn % len(self.model.line)]
            who, inbox = entry.owner, entry.inbox if turn % 3 else inbox
        reply = self.desk.withdraw(who, 0, inbox=inbox)
        self._compare(reply, lambda: self.model.withdraw(who, 0, inbox))

    # The world

    @rule(us=pauses)
    def time_passes(self, us: int) -> None:
        self.true_us += us
        self._set_clock()

    @precondition(lambda self: not self.model.live_markers())
    @rule()
    def the_clock_is_set_an_hour_ahead_and_back(self) -> None:
        """Not while a marker counts: the model does not know which lapsed markers are still stored."""
        state = self.desk.state()
        for field in [b"e", *(b"m" + who for who in state.markers)]:
            self.desk.wire.call("HDEL", self.desk.keys.waiters, field)
        self.model.markers.clear()
        if self.ahead:
            self.promises.clock_set_back(state, self.model.now)
        self.ahead = HOUR - self.ahead
        self._set_clock()
        if not self.model.last:  # nor does it know a floor that the clock had passed before it was set back
            self.desk.wire.call("HDEL", self.desk.keys.waiters, "f")

    @precondition(lambda self: self.model.main)
    @rule()
    def the_main_key_is_lost(self) -> None:
        """Evicted, or deleted by hand. The floor is then all that the server knows of fences."""
        state = self.desk.state()
        self.desk.wire.call("DEL", self.desk.keys.main)
        self.desk.wire.call("HDEL", "~expiries", self.desk.keys.main)
        self.model.main = None
        self.model.last, self.model.last_until = state.floor, state.floor and (state.side_until or 0)
        self.promises.forgotten()
        self.hash_end = max(
            self.hash_end, self.shared_end
        )  # the script that ends it now cannot tell that it was shared
        self.time_passes(1_000)

    @rule(channel=st.sampled_from(INBOXES))
    def an_inbox_comes_or_goes(self, channel: bytes) -> None:
        if channel in self.model.listening:
            self.inbox.unsubscribe(channel)
        else:
            self.inbox.subscribe(channel)
        self.model.listening ^= {channel}

    # How

    def _in_full(self, reply: Any) -> Any:
        """Of a range: its first fence may be of the next ms already."""
        return [1, reply, self.model.now, b""] if isinstance(reply, bytes) else reply

    def _ask(
        self,
        mode: str,
        who: bytes,
        amount: tuple[int, int],
        *,
        ttl: int,
        limit: int = 100,
        label: str = "",
        inbox: bytes,
        late: int = IN_TIME,
    ) -> None:
        self.time_passes(self.tick)
        how: dict[str, Any] = {"ttl": ttl, "limit": limit, "inbox": inbox, "not_after": self.model.now_us + late}
        if mode == "x":
            reply = self.desk.attempt(who, **how, label=label)
            self._compare(reply, lambda: self.model.attempt(who, **how, label=label.encode()))
            return
        n, permits = amount if mode == "p" else (1, 0)
        how |= {"mode": mode, "n": n, "permits": permits}
        reply = self.desk.share(who, **how, label=label)
        self.promises.asked(who, permits, reply)
        self._compare(reply, lambda: self.model.share(who, **how, label=label.encode()))


def play_on(machine: type[Machine], server: RunningServer, examples: int) -> None:
    desk, inbox = ClockworkDesk(server), Inbox(server)
    desk.sweep = SWEEP
    play(equipped_with(machine, desk=desk, inbox=inbox), examples, 40)
    desk.close()
    inbox.close()


def test_the_scripts_do_what_the_model_does(start_server: StartServer) -> None:
    play_on(Machine, start_server(), 80)
