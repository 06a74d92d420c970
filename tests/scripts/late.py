"""A world in which requests come late: one name, its owners as real clients are, and a network that holds some back.

    world = World(store)
    writer = world.owner("x")
    writer.ask(lost=1)                  # the network holds the first request back and delivers the second
    writer.renew_to(60)
    world.deliver(0)                    # the held-back request arrives
    world.check()                       # and no promise is broken

The owners are made of the client's own parts: its plans (attempt, release, withdraw, downgrade, adopt), its Tenure
and its Renewal, so that what they send is what clients send, byte for byte. Time is the test's: the scripts use it
on a real server (see clockwork.py), and so does the memory store. No waiter listens: waiters ask when the test says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from holdtight.base.clock import Backoff, Drift
from holdtight.base.plan import Bell, LinkDown, Park, Plan, ServerSaid, Step
from holdtight.base.values import Claim, Grant, Kind, LossReason
from holdtight.core.contend import Asking, Granted, acquire
from holdtight.core.ending import adopt, downgrade, release
from holdtight.core.multi import in_one_script
from holdtight.errors import LeaseLost, LockError
from holdtight.grants.manual_renewal import Renewal
from holdtight.grants.tenure import Tenure, Terms
from holdtight.stores.client import Client
from holdtight.stores.redis import keys, script
from holdtight.stores.redis.store import Prepared, Store
from tests.scripts.late_stores import Backend

__all__ = ["PERMITS", "Owner", "World", "take_several"]

START = 1_800_000_000.0
TTL = 10.0
PERMITS = 2
KINDS = {"x": Kind.EXCLUSIVE, "r": Kind.SHARED, "p": Kind.PERMITS}
NO_INBOX = b"$0\r\n\r\n"
MOMENT = 0.01


class World:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.now = 0.0
        self.held: list[bytes] = []
        """The requests that the network holds back, in the order in which they were sent."""
        self.owners: list[Owner] = []
        backend.begin()
        self.client = Client("ht", lambda: self.now)
        self.client.lead = START
        self.store = Store(self.client, server="a server", drift=Drift(), max_waiters=100)
        keeper = SimpleNamespace(drop=_nothing, add=_nothing, ask=_nothing)
        self.place: Any = SimpleNamespace(
            clock=self.clock,
            client=self.client,
            store=self.store,
            display="a server",
            runtime=SimpleNamespace(keeper=keeper),
        )
        self.pass_time(1.0)

    def clock(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self._backend.set_clock(round((START + self.now) * 1e6))

    def owner(self, kind: str, *, name: str = "name", max_hold: float | None = None) -> Owner:
        made = Owner(self, kind, name, max_hold)
        self.owners.append(made)
        return made

    # The network

    def send(self, request: bytes) -> Any:
        self.pass_time(MOMENT)
        return self._backend.execute(request)

    def deliver(self, which: int) -> Any:
        """A held-back request arrives, on a connection that no client reads any more."""
        request, self.held[which] = self.held[which], b""
        return self.send(request) if request else None

    def run(self, plan: Plan[Any], lost: int = 0) -> Any:
        """Runs a plan as a driver does, the first `lost` requests held back. Returns the plan once it is queued."""
        value: Any = None
        error: BaseException | None = None
        linked = True
        while True:
            try:
                wish = plan.send(value) if error is None else plan.throw(error)
            except StopIteration as stop:
                return stop.value
            value = error = None
            if isinstance(wish, Park):
                if wish.touch is not None:
                    return plan
                self.pass_time(min(wish.until - self.now, MOMENT))
                continue
            assert isinstance(wish, Step)
            if wish.undo and not linked and wish.otherwise is not None:
                wish = wish.otherwise
            request = wish.packed(NO_INBOX)
            sent = self.now
            if lost > 0:
                lost -= 1
                linked = False
                self.held.append(request)
                self.pass_time(MOMENT)
                if wish.undo:  # the keeper sends it later
                    self.send((wish.otherwise or wish).packed(NO_INBOX))
                else:
                    error = LinkDown("no answer", sent=True, silent=True)
                continue
            reply = self.send(request)
            if isinstance(reply, Exception):
                error = ServerSaid(str(reply))
            else:
                value = wish.read(reply, sent)

    # The promises

    def look(self, name: str) -> tuple[dict[bytes, tuple[str, int]], list[bytes]]:
        """The holders, how and until when (ms); and the waiters."""
        names = keys.keys_of("ht", name)
        now, value, left, sharing, line, *_ = self._backend.execute(script.INSPECT.request(names, 100))
        if value[:2] == b"x1" and left > 0:
            return {value[3:27]: ("x", now + left)}, line[::2]
        told = zip(sharing[::3], sharing[1::3], sharing[2::3], strict=True)
        return {who: (text[:1].decode(), now + ms) for who, text, ms in told}, line[::2]

    def check(self) -> None:
        for name in {each.name for each in self.owners}:
            self._check(name, [each for each in self.owners if each.name == name])

    def _check(self, name: str, owners: list[Owner]) -> None:
        holding, line = self.look(name)
        believing = [each for each in owners if each.believes]
        for each in believing:
            assert each.id in holding, f"{each} believes in what the server has given away"
            mode, until = holding[each.id]
            assert mode == each.mode, f"{each} is {mode!r} to the server"
            kept = until / 1000 - START
            assert each.tenure.deadline <= kept + 0.001, f"{each} believes in {each.tenure.deadline - kept:.3f} s more"
        modes = [each.mode for each in believing]
        assert "x" not in modes or len(modes) == 1, f"{believing} at once"
        assert modes.count("p") <= PERMITS
        waiting = {each.id for each in owners if each.waits}
        ghosts = [each for each in owners if each.id in line and each.id not in waiting]
        assert not ghosts, f"{ghosts} in line, and nobody is behind"

    def end(self) -> None:
        """Ends all plans."""
        for each in self.owners:
            each.vanish()

    def everybody_goes(self) -> None:
        """Delivers all held-back requests: only bookkeeping may be left."""
        for each in self.owners:
            each.go()
            self.check()
        for which in range(len(self.held)):
            self.deliver(which)
            self.check()
        for name in {each.name for each in self.owners}:
            holding, line = self.look(name)
            assert not line
            lost = {each.id for each in self.owners if each.left_to_the_ttl}
            assert set(holding) <= lost, "it is held, but no client knows of it"
        for key, left in self._backend.time_left().items():
            assert left is not None, f"{key!r} stays for ever"
            assert left <= 10_000 or any(each.left_to_the_ttl for each in self.owners), f"{key!r} stays for {left} ms"
        self.pass_time(60 + 10.1)
        assert not self._backend.time_left(), "and in the end nothing at all"


class Owner:
    """One acquisition, from its first request to its last. `lost`: that many of a verb's requests are held back."""

    _numbers = itertools.count(1)

    def __init__(self, world: World, kind: str, name: str, max_hold: float | None) -> None:
        self.world, self.mode, self.name, self._max_hold = world, kind, name, max_hold
        self.number = next(self._numbers)
        self.id = world.client.owner()
        self.tenure: Any = None
        self._plan: Plan[Any] | None = None
        self.left_to_the_ttl = False
        """It has ended in a way that leaves its grant to the ttl: a known limit."""
        self._set_kind(kind)

    def _set_kind(self, kind: str) -> None:
        self.mode = kind
        claim = Claim(self.name, TTL, None, KINDS[kind])
        self.prepared: Prepared = self.world.store.prepare(claim._replace(permits=PERMITS) if kind == "p" else claim)
        quiet: Any = SimpleNamespace(active=False, record=None, loud=False, wanted=False, emit_later=_nothing)
        self.terms = Terms(self.prepared.shape, self.world.place, quiet, renew=True, max_hold=self._max_hold)

    def __repr__(self) -> str:
        return f"<{self.mode} {self.number}>"

    @property
    def waits(self) -> bool:
        return self._plan is not None

    @property
    def holds(self) -> bool:
        """As far as it knows."""
        return self.tenure is not None and not self.tenure.ended and self.tenure.reason is None

    @property
    def believes(self) -> bool:
        return self.holds and not self.tenure.lost()

    # Taking

    def ask(self, lost: int = 0, *, wait: float = 30.0) -> Owner:
        asking = Asking(
            question=self.prepared,
            owner=self.id,
            server="a server",
            started=self.world.now,
            wait=wait,
            connect_timeout=5.0,
            retry=Backoff("1ms", "1ms"),
            clock=self.world.clock,
        )
        self._go_on(lambda: self.world.run(acquire(asking), lost))
        return self

    def look_again(self, lost: int = 0) -> None:
        """It was rung, or its time has come."""
        plan, self._plan = self._plan, None
        if plan is not None:
            self._go_on(lambda: self.world.run(_resumed(plan, None), lost))

    def give_up(self, lost: int = 0) -> None:
        """A waiter withdraws."""
        plan, self._plan = self._plan, None
        if plan is not None:
            try:
                self.world.run(_resumed(plan, KeyboardInterrupt()), lost)
            except KeyboardInterrupt:
                pass

    def _go_on(self, run: Callable[[], Any]) -> None:
        try:
            result = run()
        except LockError:
            return
        if isinstance(result, Granted):
            self._begin(result.grant, result.marker)
        else:
            self._plan = result

    def _begin(self, grant: Grant, marker: int) -> None:
        self.tenure = Tenure(self.terms, self.prepared, _nothing, self.id, grant.fence, grant.sent, marker)

    def touch(self, lost: int = 0) -> None:
        if self.waits:
            self._send(self.prepared.touch_request(self.id, b""), lost)

    def _send(self, request: bytes, lost: int) -> Any:
        if not lost:
            return self.world.send(request)
        self.world.held.append(request)
        self.world.pass_time(MOMENT)
        return None

    # Holding

    def renew(self, lost: int = 0) -> None:
        """As the keeper does."""
        sent = self.world.now
        request = self.tenure.request(sent) if self.holds else None
        if request is not None:
            reply = self._send(request, lost)
            if reply is not None:
                self.tenure.answered(reply, sent)

    def renew_to(self, ttl: float, lost: int = 0, *, last: bool = False) -> bool:
        if not self.holds:
            return False
        renewal = Renewal(self.tenure, ttl, _nothing, last=last)
        self.tenure.waiting = True
        sent = self.world.now
        request = renewal.request(sent)
        if request is not None:
            reply = self._send(request, lost)
            if reply is None:
                renewal.give_up()
                self.world.check()
                return False
            renewal.answered(reply, sent)
        try:
            renewal.conclude()
        except LockError:
            return False
        return True

    def downgrade(self, lost: int = 0) -> None:
        if not self.believes or self.mode != "x":
            return
        before = self.tenure
        before.waiting = True
        self._set_kind("r")
        if before.ordinal:
            before.ordinal += 1
        marker = self.world.store.marker_text(before.ordinal, self._marker())
        try:
            grant = self.world.run(downgrade(self.prepared, self.id, clock=self.world.clock, marker=marker), lost)
        except (LinkDown, LeaseLost):
            before.lose(LossReason.UNREACHABLE)
            return
        before.ended = True
        self._begin(grant, before.marker)
        self.tenure.ordinal = before.ordinal

    def _marker(self) -> int:
        known: int = self.tenure.marker
        return known if self.world.client.server_time(self.world.now) * 1000 <= known else 0

    # Ending

    def release(self, lost: int = 0) -> None:
        if self.tenure is None or self.tenure.ended:
            return
        self.tenure.ended = True
        marker = self._marker()
        try:
            self.world.run(release(self.prepared, self.id, marker=marker), lost)
        except LinkDown:
            step = self.prepared.withdraw_step(self.id, marker=marker)
            self._send(step.packed(NO_INBOX), 0)

    def detach(self, ttl: float, lost: int = 0) -> Owner | None:
        """Another owner, which may adopt it."""
        if self.mode == "x" and self.renew_to(ttl, lost, last=True):
            self.left_to_the_ttl = True
            return self.world.owner("x", name=self.name)
        return None

    def adopt(self, old: Owner, lost: int = 0) -> None:
        try:
            grant = self.world.run(adopt(self.prepared, old.id, self.id, clock=self.world.clock), lost)
        except (LinkDown, LeaseLost):
            return
        old.left_to_the_ttl = False
        self._begin(grant, 0)

    def go(self) -> None:
        self.give_up()
        self.release()

    def vanish(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            try:
                plan.throw(KeyboardInterrupt())
                while True:
                    plan.send(None)
            except (KeyboardInterrupt, StopIteration):
                pass


def take_several(world: World, names: list[str], kinds: str, lost: int = 0) -> list[Owner]:
    """Owners of all names, with one id; none if the names must be taken one by one."""
    owners = [world.owner(kind, name=name) for name, kind in zip(names, kinds, strict=True)]
    for each in owners:
        each.id = owners[0].id
    several: Any = world.store.several([each.prepared for each in owners])
    grants = world.run(in_one_script(several, owners[0].id, clock=world.clock), lost)
    for each, grant in zip(owners, grants or [], strict=False):
        each._begin(grant, 0)  # pyright: ignore[reportPrivateUsage]
    return owners if grants else []


def _resumed(plan: Plan[Any], error: BaseException | None) -> Plan[Any]:
    """Continues the plan of a waiter: it is rung, or interrupted."""
    try:
        wish = plan.send(Bell()) if error is None else plan.throw(error)
        while True:
            try:
                value = yield wish
            except BaseException as raised:
                wish = plan.throw(raised)
            else:
                wish = plan.send(value)
    except StopIteration as stop:
        return stop.value


def _nothing(*args: object, **named: object) -> None:
    pass
