"""The behaviour of one name, in Python: the memory store's engine, and the specification for the Lua scripts.

A name is free, held exclusively (`x`), shared by readers (`r`) or by holders of a semaphore's permits (`p`). An expired
grant stays visible for TAIL ms, so that the next owner learns which owner expired. Shared holders are entries with an
expiry each, never a counter; every attempt removes some of the expired ones. A name also has a queue of waiters, each
alive until its own expiry; the queue vanishes when no waiter has kept its place for HEARTBEAT ms. A waiter that is
*passed over* keeps its place but is offered nothing until it attempts again. Markers refuse owners that have withdrawn.

Times are ms on the server's clock; fences and arrival limits (`not_after`) are µs. Replies are those of the scripts,
except that a grant never has the short form (the bare fence): see `verbs.long_form`. An error reply is raised. How a
server stores things (flags, scores, the fence's floor) has no counterpart here; tests/scripts specifies it.
"""

from dataclasses import dataclass
from typing import Any

from holdtight.base.plan import ServerSaid
from holdtight.stores.memory.holders import Holder
from holdtight.stores.memory.line import Entry
from holdtight.stores.memory.state import CLAIM, FRESH, HEARTBEAT, SWEEP, TAIL, Forced, Main, State

__all__ = ["CLAIM", "FRESH", "HEARTBEAT", "SWEEP", "TAIL", "USES", "Entry", "Holder", "Main", "Name"]

STEP_BACK = 250
RUNNERS_UP = 4

USES = {"x": "an exclusive lock", "r": "a read-write lock", "p": "a semaphore"}

Reply = Any


@dataclass
class Name(State):
    looks: int = 0
    """How many queue entries the current script has checked."""
    trusted: bool = False
    """The last taker has just given a sign of life, so no runner-up was told: the releaser checks that it confirms."""

    # The verbs

    def attempt(self, who: bytes, *, ttl: int, limit: int, label: bytes, inbox: bytes, not_after: int) -> Reply:
        return self._ask(Entry(who, ttl, inbox, label, self.now, 0), limit, not_after)

    def share(
        self,
        who: bytes,
        *,
        mode: str,
        n: int,
        permits: int,
        ttl: int,
        limit: int,
        label: bytes,
        inbox: bytes,
        not_after: int,
    ) -> Reply:
        """To read (mode `r`, n = 1), or for `n` permits if at most `permits` are then in use (mode `p`)."""
        wish = Entry(who, ttl, inbox, label, self.now, 0, mode=mode, n=n, permits=permits)
        return self._ask(wish, limit, not_after)

    def release(self, who: bytes, fence: int = 0) -> Reply:
        if not self.main or not (self.main.held_by(who) or (self.shared and who in self.holders)):
            return self.not_ours(who, self.main.owner if self.main else None, fence)
        if self.is_another(who, fence):
            return self.not_ours(who, None, fence)
        self.line.leave(who)
        return self._pass_on(who, self.main, looks=True)

    def renew(
        self, who: bytes, *, ttl: int, not_after: int, marker: int = 0, ordinal: int = 0, fence: int = 0
    ) -> Reply:
        """With an ordinal the time left is set, and may shrink: the ordinal proves that no newer request arrived."""
        if not self.main or not self._has(who, self.main.mode) or self.is_another(who, fence):
            return self.not_ours(who, self.main.owner if self.main and not self.main.held_by(who) else None, fence)
        if self.now_us > not_after:
            return [-1, self.now]
        if self.is_marked(who) and self.ordinals.get(who, -1) >= ordinal:
            return [-1, self.now]
        self._arm(self.main, who, ttl, exact=ordinal > 0 or self.was_set_back(self.main, who, ttl))
        if ordinal:
            self.mark(who, marker, ordinal)
        return 1

    def touch(self, who: bytes, inbox: bytes, kept: int = HEARTBEAT) -> Reply:
        entry = self.line.get(who)
        if entry is None:
            self._ring(inbox, b"g" + who)
            return 0
        self.keep_place(entry, kept)
        if inbox and (entry.inbox != inbox or self._may_be_had_by(who)):
            self._ring(inbox, b"g" + who)
        return 1

    def withdraw(self, who: bytes, marker: int, inbox: bytes | None = None) -> Reply:
        """With an inbox: does nothing unless the owner waits with that inbox; `*` stands for any inbox."""
        entry = self.line.get(who)
        if inbox is not None and (entry is None or (inbox != b"*" and (not inbox or entry.inbox != inbox))):
            return 1
        reply = self._undo(who, marker)
        return self.not_ours(who, None) if reply == 1 and who in self.forced else reply

    def _undo(self, who: bytes, marker: int) -> Reply:
        self.line.leave(who)
        if marker > self.now:
            self.mark(who, marker)
        if self.holder and self.holder != who:
            return 1
        if self.main and (self.main.held_by(who) or self.shared):
            return self._pass_on(who, self.main)
        self.holders.remove(who)
        return 2 if self._hand_on() else 1

    def adopt(self, old: bytes, who: bytes, *, ttl: int, label: bytes, not_after: int) -> Reply:
        if self.now_us > not_after:
            return [-1, self.now]
        if not self.main or not self.holder:
            return self._not_there(None, old, who)
        if self.is_marked(who):
            return [-3, self.now]
        if self.main.held_by(who):
            self._arm(self.main, who, ttl)
        elif self.main.held_by(old):
            self._grant(Entry(who, ttl, b"", label, self.now, 0), ttl)
        else:
            return self._not_there(self.main.owner, old, who)
        return [1, b"%d" % self.main.fence, self.now, b""]

    def _not_there(self, holder: bytes | None, *owners: bytes, fence: int = 0) -> Reply:
        found = max((self.not_ours(who, holder, fence) for who in owners), key=len)
        return [0, self.now, *found[1:]]

    def downgrade(self, who: bytes, *, ttl: int, label: bytes, not_after: int, fence: int = 0, **marker: int) -> Reply:
        """Turns the exclusive holder into a reader; readers at the head of the queue are admitted too."""
        if self.now_us > not_after:
            return [-1, self.now]
        held = self.holders.alive(who, self.now) if self._has(who, "r") else None
        if held and held.fence > fence:
            return self._confirm(who, ttl)
        if self.holder != who or self.is_another(who, fence):
            return self._not_there(self.holder if self.holder != who else None, who, fence=fence)
        self.line.leave(who)
        self._grant(Entry(who, ttl, b"", label, self.now, 0, mode="r"), ttl)
        granted = b"%d" % self.last
        if marker.get("marker"):
            self.mark(who, **marker)
        self._hand_on()
        return [1, granted, self.now, b""]

    def force(self, id_: bytes, owners: dict[bytes, bytes]) -> Reply:
        """Takes the grants of these owners away, and hands the name on. `owners` maps each to its client's alarm."""
        for who in owners:
            known = self.forced.get(who)
            if known and known.id == id_:
                return known.answer
        found: dict[bytes, tuple[int, int]] = {}
        for who in owners:
            if self.main and self.main.owner:
                if self.holder == who:
                    found[who] = self.left, self.main.fence
            elif holder := self.holders.alive(who, self.now):
                found[who] = holder.expiry - self.now, holder.fence
        if not found:
            return [0, self.now]
        self.last = fence = max(self.last + 1, self.now_us)
        for who in found:
            self.holders.remove(who)
        if self.main and self.main.owner:
            self.main = None
        self._clear_away()
        before = {each.owner for each in self.holders}
        more = self._hand_on()
        admitted = [each.owner for each in self.sharing() if each.owner not in before]
        next_owner = self.holder or (admitted[0] if admitted else b"")
        if not self.main or (self.shared and not self.holders):
            self.last_until = self.now + self.ms_until(fence) + TAIL
            self.main = Main(None, fence, self.last_until)
        self.main.fence = max(self.main.fence, fence)
        answer = [1, self.now_us, b"%016d" % fence, next_owner, 2 if more else 1, *found]
        for who, (left, old) in found.items():
            self.forced[who] = Forced(self.now + left + TAIL, old, id_, [*answer[:4], 1, *found])
            self._ring(owners[who], b"k" + who)
        return answer

    def is_for_the_asking(self, mode: str, n: int, permits: int) -> bool:
        """True if the name has no waiters and no expired holders, and the request fits: a condition for taking several
        names in one step."""
        if self.line or self.live_markers() or self.forced or self.last >= self.now_us:
            return False
        if (self.main and self.main.owner is not None) or len(self.holders) != self.holders.count(self.now):
            return False
        return self._fits(Entry(b"", 0, b"", b"", 0, 0, mode=mode, n=n, permits=permits))

    # Internals

    def _ask(self, wish: Entry, limit: int, not_after: int) -> Reply:
        who = wish.owner
        if self.now_us > not_after:
            return [-1, self.now]
        if self.is_marked(who):
            return [-3, self.now]
        self.forced.pop(who, None)
        if self._has(who, wish.mode):
            return self._confirm(who, wish.ttl)
        self._refuse_another_kind(wish.mode)
        self.look_again(who)
        more = False
        if not self.holder:
            expired = self._clear_away()
            self.looks = 0
            stopped, more = self._hand_over(who)
            if not stopped and self._fits(wish):
                return self._take(wish, expired)
            more = more or self._only_the_dead()
        holder, left = self._in_the_way_of(wish.mode)
        if limit == 0:
            return [0, self.now, holder, left, 0, left]
        entry = self.line.get(who)
        if entry is None:
            if len(self.line) >= limit:
                self.sweep_some()
            if len(self.line) >= limit:
                return [-2, self.now, len(self.line)]
            if not self.line:
                self.line_until = 0
            self.line.join(wish, behind=self.looked)
            entry = wish
        entry.ttl, entry.inbox, entry.label = wish.ttl, wish.inbox, wish.label
        entry.mode, entry.n, entry.permits = wish.mode, wish.n, wish.permits
        self.keep_place(entry)
        position = self.line.place(entry.number) + 1
        # Only a waiter ahead blocks this one, and it may have died without notice: check again within a heartbeat.
        patience = min(left, HEARTBEAT) if not self.holder and self._fits(wish) else left
        look = 0 if more else patience + min(position - 1, 20) * STEP_BACK
        return [0, self.now, holder, left, position, look]

    def _has(self, who: bytes, mode: str) -> bool:
        """True if this owner holds the name in that mode and has not expired."""
        if not self.main or self.main.mode != mode:
            return False
        return self.holder == who if mode == "x" else self.holders.alive(who, self.now) is not None

    def _confirm(self, who: bytes, ttl: int) -> Reply:
        assert self.main
        holder = self.holders.alive(who, self.now)
        self.line.leave(who)
        self._arm(self.main, who, ttl)
        return [1, b"%d" % (holder or self.main).fence, self.now, b""]

    def _take(self, wish: Entry, expired: bytes) -> Reply:
        number = self.line.leave(wish.owner)
        self._grant(wish, wish.ttl)
        fence = b"%d" % self.last
        if wish.mode != "x" and number:
            self._hand_over(None, number)  # waiters behind it that can share the name need not wait
        return [1, fence, self.now, expired]

    def _grant(self, wish: Entry, ttl: int) -> None:
        self.last = max(self.last + 1, self.now_us)
        if wish.mode == "x":
            self.main = Main(wish.owner, self.last, 0, wish.label, "x")
        else:
            if not self.holders:
                self.holders_until = 0
            self.main = Main(None, self.last, 0, b"", wish.mode)
            self.holders.add(Holder(wish.owner, wish.mode, wish.n, self.last, wish.label, self.now + ttl))
        self._arm(self.main, wish.owner, ttl)

    def _arm(self, main: Main, who: bytes, ttl: int, *, exact: bool = False) -> None:
        """Extends the time left, or sets it if `exact`. What several holders share stays until the last of them has
        visibly expired."""
        until = self.now + ttl + TAIL
        if main.mode == "x":
            main.until = until if exact else max(main.until, until)
        else:
            self.holders.rearm(who, self.now + ttl, exact=exact)
            self.holders_until = main.until = max(self.holders_until, until)
        self.last_until = max(main.until, self.now + self.ms_until(main.fence) + TAIL)

    def _fits(self, wish: Entry) -> bool:
        """True if the request is compatible with the shared holders. Assumes that there is no exclusive holder."""
        if not self.holders:
            return wish.mode != "p" or wish.n <= wish.permits
        if wish.mode == "p":
            return self.shared == "p" and self.holders.permits(self.now) + wish.n <= wish.permits
        return wish.mode == "r" == self.shared

    def _in_the_way_of(self, mode: str) -> tuple[bytes, int]:
        """The holder to wait for, and its time left: for a writer, the last shared holder to expire."""
        if self.holder:
            return self.holder, self.left
        who = self.holders.last() if mode == "x" else self.holders.first(self.now)
        return (who.owner, who.expiry - self.now) if who and who.expiry > self.now else (b"", 0)

    def _refuse_another_kind(self, mode: str) -> None:
        use = "x" if self.holder else self.shared if self.holders.count(self.now) else ""
        if not use:
            use = next((entry.mode for entry in self.line.some(0, self.sweep) if self.is_alive(entry)), "")
        if use and (use == "p") != (mode == "p"):
            raise ServerSaid(f"HTKIND {USES[use]}")

    def _clear_away(self) -> bytes:
        """Removes some expired holders and returns one of them. Not one that is still in the queue: it missed a
        hand-over and held nothing."""
        gone = [self.main.owner] if self.main and self.main.owner else self.holders.reap(self.now, self.sweep)
        return next((who for who in gone if who not in self.line), b"")

    def _only_the_dead(self) -> bool:
        """True if more expired holders are left than one script removes: the name is neither held nor free."""
        return len(self.holders) > 0 and self.holders.count(self.now) == 0

    def _pass_on(self, who: bytes, main: Main, *, looks: bool = False) -> Reply:
        """Hands the owner's grant to waiters. If no holder is left then, leaves a tombstone."""
        self.trusted = False
        self.holders.remove(who)
        if main.held_by(who):
            self.main = None
        more = self._hand_on(looks=looks)
        if not self.main or (self.shared and not self.holders):
            until = self.now + self.ms_until(main.fence) + TAIL
            self.main = Main(None, main.fence, until)
            self.last_until = until
        return 2 if more else 3 if self.trusted else 1

    def _hand_on(self, *, looks: bool = False) -> bool:
        """Hands a free name to waiters. True if more entries are left to check."""
        if not self.line:
            return False
        self._clear_away()
        self.looks = 0
        return self._hand_over(None, looks=looks)[1]

    def _hand_over(self, me: bytes | None, behind: int = 0, *, looks: bool = False) -> tuple[bool, bool]:
        """Grants to all waiters that fit now, in order, up to `me`, for which the caller decides.

        Returns whether it had to stop (the name is now held, a waiter before `me` does not fit, or `sweep` entries
        were checked), and whether more entries are left to check.
        """
        place, longest = self.line.place(max(self.looked, behind) + 1), 0
        while place < len(self.line):
            entry = self.line[place]
            if entry.owner == me:
                return False, False
            if not self.is_alive(entry):
                self.line.leave(entry.owner)
            elif entry.passed_over:
                place += 1
            elif not self._fits(entry):
                if longest:
                    self._note_runner_up(place, longest)
                return True, self._only_the_dead()
            else:
                place += 1
                entry.passed_over = True
                if self._ring(entry.inbox, b"g" + entry.owner):
                    claim = min(CLAIM, entry.ttl)
                    longest = max(longest, claim)
                    self._grant(entry, claim)
                    if entry.mode == "x":
                        self.trusted = looks and entry.expiry > self.now_us / 1000 + HEARTBEAT - FRESH
                        if not self.trusted:
                            self._note_runner_up(place, claim)
                        return True, False
            self.looks += 1
            if self.looks == self.sweep:
                self.looked = entry.number
                return True, True
        self.looked = 0
        return False, False

    def _may_be_had_by(self, who: bytes) -> bool:
        """True if the name may be available: the clients that should have rung this waiter may be dead. Marks the
        waiters ahead that cannot be rung, as a hand-over would."""
        if not self.main or not self.main.mode:
            return True
        if self.main.mode == "x":
            return not self.holder
        if len(self.holders) > self.holders.count(self.now):
            return True
        found = False
        for entry in self.line.some(self.line.place(self.looked + 1), self.sweep):
            alive = self.is_alive(entry)
            if entry.owner == who or (alive and not entry.passed_over and self._is_there(entry)):
                break
            found = found or not alive or not entry.passed_over
            entry.passed_over = entry.passed_over or alive
        return found

    def _note_runner_up(self, place: int, claim: int) -> None:
        for entry in self.line.some(place, RUNNERS_UP):
            if self.is_alive(entry) and not entry.passed_over:
                note = b"n%b%d" % (entry.owner, claim)
                if self._ring(entry.inbox, note):
                    return

    def _ring(self, inbox: bytes, message: bytes) -> bool:
        """False if the inbox has no subscriber. A waiter without an inbox polls, and counts as reached."""
        if inbox in self.listening:
            self.bells.append((inbox, message))
        return not inbox or inbox in self.listening
