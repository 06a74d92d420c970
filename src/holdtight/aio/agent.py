"""Acts for owners that come from outside: the lock service does that for its clients.

An `Agent` has no leases, no keeper and no identity. An owner that is *repeatable* may be asked for again, also by way
of another process: the same owner gets the same grant. So nothing that the agent gives up is retried or swept later
under such an owner, and leaving the line undoes only what this connection asked for and nobody was told of.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdtight.aio.connection import Connection
from holdtight.aio.driver import Driver
from holdtight.aio.locks import AsyncLocks
from holdtight.aio.quiet import Pulse, QuietDriver
from holdtight.aio.transport import Transport
from holdtight.base.plan import LinkDown, Plan, ServerSaid, Step
from holdtight.base.values import (
    HANDED_ON,
    MORE_TO_SWEEP,
    RELEASED,
    Claim,
    Denied,
    Grant,
    Kind,
    LossReason,
    Owner,
    Verdict,
    Wait,
    owner_text,
)
from holdtight.core.contend import Answer, Asking, Granted, abandon, acquire
from holdtight.core.ending import adopt, release, sweep, turned
from holdtight.core.inspect import glance
from holdtight.core.patience import SHORTEST_PATIENCE, patience
from holdtight.errors import LeaseLost
from holdtight.keeper.charges import look_after
from holdtight.stores.boundary import Prepared
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["Agent", "Attempt", "Held", "Taken"]

MOST_SHAPES = 1000
ANY_TTL = 30.0
"""For requests that do not need the claim's ttl."""
MOST_HOLDERS = 10_000
"""Of one name: among these an owner is looked for."""


class Held(NamedTuple):
    """One grant, as its holder names it."""

    name: str
    kind: Kind
    n: int
    owner: Owner
    fence: int


class Taken(NamedTuple):
    """A grant, or its renewal. `sent`: when the answered request went out; the ttl counts from then."""

    fence: int
    sent: float
    expired: bool = False


class _Question:
    """A prepared claim whose undo leaves the line."""

    def __init__(self, agent: "Agent", prepared: Any) -> None:
        self._prepared = prepared
        self._acting = agent.acting
        self.claim = prepared.claim
        self.valid = prepared.valid
        self.max_waiters = prepared.max_waiters
        self.attempt_step = prepared.attempt_step
        self.holder_step = prepared.holder_step
        self.is_passing = prepared.is_passing
        self.meaning = prepared.meaning

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        request: bytes = self._acting.touch_request(self._prepared, owner, inbox)
        return request

    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step:
        step: Step = self._acting.leave_step(self._prepared, owner)
        return step


class _Ending:
    """A grant with its fence, as core/ending.py releases it."""

    def __init__(self, agent: "Agent", prepared: Any, fence: int) -> None:
        self._agent = agent
        self._prepared = prepared
        self._fence = fence
        self.handed_on = False

    def read_release(self, reply: Any) -> int | Denied | None:
        answer: int | Denied | None = self._prepared.read_release(reply)
        return answer

    def release_step(self, owner: Owner) -> Step:
        step: Step = self._agent.acting.release_step(self._prepared, owner, self._fence)
        read = step.read

        def noting(reply: Any, sent: float) -> Any:
            answer = read(reply, sent)
            self.handed_on = answer == HANDED_ON
            return answer

        step.read = noting
        return step

    def sweep_step(self, owner: Owner) -> Step:
        """By a fresh owner: this one may be asked for again meanwhile."""
        step: Step = self._prepared.sweep_step(self._agent.fresh_owner())
        return step


class Attempt:
    """One acquisition, which may wait. `keep()` ends its claim to undo anything."""

    def __init__(
        self,
        agent: "Agent",
        claim: Claim,
        owner: Owner,
        *,
        wait: float = 0.0,
        stay: bool = False,
        repeatable: bool = True,
        holding: Sequence[Held] = (),
        who: str = "",
    ) -> None:
        """`holding`: grants that count when a deadlock is looked for. `stay`: the place stays when the wait ends."""
        self.owner = owner
        self.wait = wait
        self._agent = agent
        self._claim = claim
        self._stay = stay
        self._repeatable = repeatable
        self._holding = holding
        self._who = who
        self._prepared = agent.prepared(claim)
        self._started = agent.clock()
        self._keeps = False
        self._asking: Asking | None = None

    @property
    def waits(self) -> bool:
        """Whether it may stand in line."""
        return self.wait != 0 or self._stay

    def keep(self) -> None:
        """The place in line stays, even if the task that waits is cancelled: the owner asks elsewhere."""
        self._keeps = True
        if self._asking is not None:
            self._asking.keeps = True

    def touch_step(self) -> Step:
        """Keeps the place in line for a whole heartbeat from now on, and rings nobody."""
        request = self._plan().question.touch_request(self.owner, b"")
        return Step(request, None, lambda reply, sent: reply, patience=LONGEST_PATIENCE)

    def _plan(self) -> Asking:
        """The acquisition as the wait loop knows it. A first answer that grants needs none."""
        if self._asking is not None:
            return self._asking
        locks = self._agent.locks
        settings, clock = locks.settings, locks.place.clock
        self._asking = asking = Asking(
            question=_Question(self._agent, self._prepared) if self._repeatable else self._prepared,
            owner=self.owner,
            server=locks.place.display,
            started=self._started,
            wait=self.wait,
            connect_timeout=settings.connect_timeout,
            retry=settings.retry,
            clock=clock,
            check_open=locks.check_open,
        )
        asking.stays, asking.keeps = self._stay, self._keeps
        if self._holding and self.wait:
            from holdtight.core.deadlock import Watch

            owners = [each.owner for each in self._holding]
            asking.watch = Watch(
                locks.waits,
                Wait(self.owner, self._claim.name, self._who, self._claim.label),
                lambda: owners,
                started=self._started,
                after=settings.deadlock_after,
                clock=clock,
                tally=locks.deadlocks,
            )
        return asking

    def _driver(self, transport: Transport, connection: Connection | None) -> Driver:
        if not self._repeatable:
            return Driver(transport, connection)
        return QuietDriver(transport, connection, self._agent.pulse)

    async def run(self) -> Taken:
        """Raises as `acquire` of a lock does, and Kept if the wait ends in line and the place stays."""
        agent, prepared, wait = self._agent, self._prepared, self.wait
        agent.locks.check_open()
        transport = agent.locks.transport()
        connection = transport.ready()
        answer: Answer | None = None
        limit = 0
        if connection is not None:
            now = agent.clock()
            left = wait if not wait else max(self._started + wait - now, SHORTEST_PATIENCE)
            longest = patience(prepared, left, agent.locks.settings.connect_timeout)
            step = prepared.attempt_step(self.owner, now=now, patience=longest, queue=self.waits)
            limit = step.limit
            try:
                answer = await transport.perform(connection, step)
            except (LinkDown, ServerSaid) as failure:
                answer = failure
            except BaseException:
                with self._driver(transport, connection) as driver:
                    await driver.run(abandon(self._plan(), limit))
                raise
            if isinstance(answer, Grant) and agent.clock() - answer.sent < prepared.valid:
                return Taken(answer.fence, answer.sent, answer.expired is not None)
        try:
            with agent.pulse, self._driver(transport, connection) as driver:
                granted = await driver.run(acquire(self._plan(), answer, limit))
        except (LinkDown, ServerSaid) as error:
            raise agent.locks.meaning(error, self._claim.name) from error
        assert isinstance(granted, Granted)
        return Taken(granted.grant.fence, granted.grant.sent, granted.grant.expired is not None)


class Agent:
    """Takes, renews, releases and hands over locks in the name of owners from outside."""

    def __init__(self, locks: AsyncLocks) -> None:
        self.locks = locks
        self.acting: Any = locks.place.acting
        self.clock = locks.place.clock
        self.pulse = Pulse(self.clock)
        self._shapes: dict[tuple[Any, ...], Any] = {}

    def fresh_owner(self) -> Owner:
        return self.locks.client.owner()

    def prepared(self, claim: Claim) -> Any:
        key = claim[1:]  # all but the name
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self.locks.store.shape(claim._replace(name=""))
        return shape.prepare(claim.name)

    def _of(self, held: Held, ttl: float = ANY_TTL) -> Prepared:
        prepared: Prepared = self.prepared(Claim(held.name, ttl, None, held.kind, held.n, held.n))
        return prepared

    def valid(self, ttl: float) -> float:
        """How long a holder may rely on a grant, from the moment at which its request was sent."""
        valid: float = self.locks.store.drift.valid(ttl)
        return valid

    async def take(self, claim: Claim, owner: Owner, **how: Any) -> Taken:
        return await Attempt(self, claim, owner, **how).run()

    async def leave(self, claim: Claim, owner: Owner, *, granted_too: bool = False) -> None:
        """Ends the owner's place in line, whichever connection it waits on. Only `granted_too` also ends a grant: it is
        for an owner that is finished, and may have a grant that it was never told of."""
        prepared = self.prepared(claim)

        def plan() -> Plan[None]:
            step: Step = prepared.sweep_step(owner) if granted_too else self.acting.quit_step(prepared, owner)
            yield step

        await self.locks.run(plan(), claim.name)

    async def holds(self, claim: Claim, owner: Owner) -> bool:
        """Whether the owner has a grant now, also one of which nobody was told."""
        info = await self.locks.run(glance(self.prepared(claim), MOST_HOLDERS), claim.name)
        return owner_text(owner) in [each.owner for each in info.holders]

    async def renew(self, held: Held, ttl: float) -> Taken | LossReason | None:
        """Extends the time left; never shortens it. None if the outcome is unknown."""
        return (await self.renew_all([held], ttl))[0]

    async def renew_all(self, held: Sequence[Held], ttl: float) -> list[Taken | LossReason | None]:
        """Renews all in one write. Raises Unavailable if the server cannot be reached."""
        if not held:
            return []
        locks = self.locks
        transport: Transport = locks.transport()
        now = locks.place.clock()
        steps = [self.acting.renew_step(self._of(each, ttl), each.owner, each.fence, now=now, ttl=ttl) for each in held]
        answers: list[Any] = []
        try:
            connection = await transport.connect(patience(self._of(held[0], ttl), None, 2.0))
            answers = await transport.perform_all(connection, steps)
        except (LinkDown, ServerSaid) as error:
            raise locks.meaning(error, held[0].name if len(held) == 1 else None) from error
        found: list[Taken | LossReason | None] = []
        for each, answer in zip(held, answers, strict=True):
            if answer is Verdict.RENEWED:
                found.append(Taken(each.fence, now))
            elif isinstance(answer, LossReason):
                found.append(answer)
            elif isinstance(answer, ServerSaid) and len(held) == 1:
                raise locks.meaning(answer, each.name)
            else:
                found.append(None)
        return found

    async def release(self, held: Held) -> LossReason | None:
        """Returns None if it was held and is released, else why it was not."""
        prepared = self._of(held)
        transport: Transport = self.locks.transport()
        connection = transport.ready()
        first: LinkDown | None = None
        answer: Any = None
        if connection is not None:  # the usual case takes one round trip and no plan
            try:
                answer = await transport.perform(connection, self.acting.release_step(prepared, held.owner, held.fence))
            except LinkDown as down:
                first = down
            except ServerSaid as said:
                raise self.locks.meaning(said, held.name) from said
        if answer == RELEASED:
            return None
        if isinstance(answer, Denied):
            lost = LossReason.TAKEN if answer.holder else LossReason.EXPIRED
            return LossReason.FORCED if answer.forced else lost
        ending: Any = _Ending(self, prepared, held.fence)
        reason = None
        if answer == MORE_TO_SWEEP:
            await self.locks.run(sweep(ending, held.owner), held.name)
        elif answer is None:
            reason = await self.locks.run(release(ending, held.owner, marker=0, first=first), held.name)
        if answer == HANDED_ON or ending.handed_on:
            place = self.locks.place
            look_after(place, prepared, self.fresh_owner(), place.clock())
        return reason

    async def downgrade(self, held: Held, ttl: float, label: str | None) -> Taken:
        """Turns a writer's grant into a reader's, with a higher fence. Raises LeaseLost. Safe to repeat."""
        prepared = self.prepared(Claim(held.name, ttl, label, Kind.SHARED))
        clock = self.locks.place.clock
        grant: Grant = await self.locks.run(
            turned(
                lambda: self.acting.downgrade_step(prepared, held.owner, held.fence, now=clock()), prepared.claim, []
            ),
            held.name,
        )
        return Taken(grant.fence, grant.sent)

    async def adopt(self, claim: Claim, old: Owner, owner: Owner, *, repeatable: bool = True) -> Taken:
        """Takes over a detached grant. Raises LeaseLost. A repeatable owner may ask again after a failure."""
        prepared = self.prepared(claim)
        clock = self.locks.place.clock
        if repeatable:
            plan = turned(lambda: prepared.adopt_step(old, owner, now=clock()), claim, [])
        else:
            plan = adopt(prepared, old, owner, clock=clock)
        grant: Grant = await self.locks.run(plan, claim.name)
        return Taken(grant.fence, grant.sent)

    async def release_all(self, held: Sequence[Held]) -> list[Held]:
        """Releases what is still held of these, some at a time; returns those."""
        done: list[Held] = []
        for at in range(0, len(held), 100):
            some = await asyncio.gather(*[self.release(each) for each in held[at : at + 100]], return_exceptions=True)
            for each, said in zip(held[at:], some, strict=False):
                if isinstance(said, BaseException) and not isinstance(said, LeaseLost):
                    raise said
                if said is None:
                    done.append(each)
        return done
