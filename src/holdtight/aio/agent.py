"""Acts for owners that come from outside: the lock service does that for its clients.

An `Agent` has no leases, no keeper and no identity. An owner that is *repeatable* may be asked for again, also by way
of another process: the same owner gets the same grant. So nothing that the agent gives up is retried or swept later
under such an owner, and leaving the line undoes only what this connection asked for and nobody was told of.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdtight.aio.driver import Driver
from holdtight.aio.locks import AsyncLocks
from holdtight.aio.transport import Transport
from holdtight.base.plan import LinkDown, Plan, ServerSaid, Step
from holdtight.base.values import Claim, Denied, Grant, Kind, LossReason, Owner, Verdict, Wait
from holdtight.core.contend import Answer, Asking, Granted, abandon, acquire
from holdtight.core.ending import adopt, release, turned
from holdtight.core.patience import patience
from holdtight.errors import LeaseLost
from holdtight.keeper.charges import look_after
from holdtight.stores.boundary import Prepared

__all__ = ["Agent", "Attempt", "Held", "Taken"]

MOST_SHAPES = 1000
ANY_TTL = 30.0
"""For requests that do not need the claim's ttl."""


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
        self.touch_request = prepared.touch_request
        self.holder_step = prepared.holder_step
        self.is_passing = prepared.is_passing
        self.meaning = prepared.meaning

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
            self.handed_on = answer == 3
            return answer

        step.read = noting
        return step

    def sweep_step(self, owner: Owner) -> Step:
        """By a fresh owner: this one may be asked for again meanwhile."""
        step: Step = self._prepared.sweep_step(self._agent.fresh_owner())
        return step


class _QuietDriver(Driver):
    """Leaves nothing to the keeper: an undo that cannot be sent now is left to the ttl and the heartbeat."""

    def _defer(self, step: Step) -> None: ...


class Attempt:
    """One acquisition, which may wait. `keep()` ends its claim to undo anything."""

    def __init__(self, agent: "Agent", prepared: Any, asking: Asking, repeatable: bool) -> None:
        self._agent = agent
        self._prepared = prepared
        self._driver = _QuietDriver if repeatable else Driver
        self.asking = asking

    def keep(self) -> None:
        """The place in line stays, even if the task that waits is cancelled: the owner asks elsewhere."""
        self.asking.keeps = True

    @property
    def waiting(self) -> bool:
        return self.asking.in_line

    async def run(self) -> Taken:
        """Raises as `acquire` of a lock does, and Kept if the wait ends in line and the place stays."""
        agent, asking = self._agent, self.asking
        agent.locks.check_open()
        transport = agent.locks.transport()
        connection = transport.ready()
        answer: Answer | None = None
        limit = 0
        if connection is not None:
            now = asking.clock()
            queue = asking.wait != 0 or asking.stays
            step = asking.question.attempt_step(asking.owner, now=now, patience=asking.patience(now), queue=queue)
            limit = step.limit
            try:
                answer = await transport.perform(connection, step)
            except (LinkDown, ServerSaid) as failure:
                answer = failure
            except BaseException:
                with self._driver(transport, connection) as driver:
                    await driver.run(abandon(asking, limit))
                raise
            if isinstance(answer, Grant) and asking.clock() - answer.sent < asking.question.valid:
                return Taken(answer.fence, answer.sent, answer.expired is not None)
        try:
            with self._driver(transport, connection) as driver:
                granted = await driver.run(acquire(asking, answer, limit))
        except (LinkDown, ServerSaid) as error:
            raise agent.locks.meaning(error, asking.question.claim.name) from error
        assert isinstance(granted, Granted)
        return Taken(granted.grant.fence, granted.grant.sent, granted.grant.expired is not None)


class Agent:
    """Takes, renews, releases and hands over locks in the name of owners from outside."""

    def __init__(self, locks: AsyncLocks) -> None:
        self.locks = locks
        self.acting: Any = locks.place.acting
        self._shapes: dict[Claim, Any] = {}

    def fresh_owner(self) -> Owner:
        return self.locks.client.owner()

    def _prepared(self, claim: Claim) -> Any:
        key = claim._replace(name="")
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self.locks.store.shape(key)
        return shape.prepare(claim.name)

    def _of(self, held: Held, ttl: float = ANY_TTL) -> Prepared:
        prepared: Prepared = self._prepared(Claim(held.name, ttl, None, held.kind, held.n, held.n))
        return prepared

    def valid(self, ttl: float) -> float:
        """How long a holder may rely on a grant, from the moment at which its request was sent."""
        valid: float = self.locks.store.drift.valid(ttl)
        return valid

    def attempt(
        self,
        claim: Claim,
        owner: Owner,
        *,
        wait: float = 0.0,
        stay: bool = False,
        repeatable: bool = True,
        holding: Sequence[Held] = (),
        who: str = "",
    ) -> Attempt:
        """`holding`: grants that count when a deadlock is looked for. `stay`: the place stays when the wait ends."""
        locks = self.locks
        prepared = self._prepared(claim)
        started = locks.place.clock()
        asking = Asking(
            question=_Question(self, prepared) if repeatable else prepared,
            owner=owner,
            server=locks.place.display,
            started=started,
            wait=wait,
            connect_timeout=locks.settings.connect_timeout,
            retry=locks.settings.retry,
            clock=locks.place.clock,
            check_open=locks.check_open,
        )
        asking.stays = stay
        if holding and wait:
            from holdtight.core.deadlock import Watch

            owners = [each.owner for each in holding]
            asking.watch = Watch(
                locks.waits,
                Wait(owner, claim.name, who, claim.label),
                lambda: owners,
                started=started,
                after=locks.settings.deadlock_after,
                clock=locks.place.clock,
                tally=locks.deadlocks,
            )
        return Attempt(self, prepared, asking, repeatable)

    async def take(self, claim: Claim, owner: Owner, **how: Any) -> Taken:
        return await self.attempt(claim, owner, **how).run()

    async def leave(self, claim: Claim, owner: Owner) -> None:
        """Ends the owner's place in line, by way of whichever connection it waits; never a grant."""
        prepared = self._prepared(claim)

        def plan() -> Plan[None]:
            step: Step = self.acting.quit_step(prepared, owner)
            yield step

        await self.locks.run(plan(), claim.name)

    async def renew(self, held: Held, ttl: float) -> Taken | LossReason | None:
        """Extends the time left; never shortens it. None if it is not known whether that was done."""
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
        ending: Any = _Ending(self, prepared, held.fence)
        reason = await self.locks.run(release(ending, held.owner, marker=0), held.name)
        if ending.handed_on:
            place = self.locks.place
            look_after(place, prepared, self.fresh_owner(), place.clock())
        return reason

    async def downgrade(self, held: Held, ttl: float, label: str | None) -> Taken:
        """Turns a writer's grant into a reader's, with a higher fence. Raises LeaseLost. Safe to repeat."""
        prepared = self._prepared(Claim(held.name, ttl, label, Kind.SHARED))
        clock = self.locks.place.clock
        grant: Grant = await self.locks.run(
            turned(lambda: self.acting.downgrade_step(prepared, held.owner, held.fence, now=clock()), held.name, []),
            held.name,
        )
        return Taken(grant.fence, grant.sent)

    async def adopt(self, claim: Claim, old: Owner, owner: Owner, *, repeatable: bool = True) -> Taken:
        """Takes over a detached grant. Raises LeaseLost. A repeatable owner may ask again after a failure."""
        prepared = self._prepared(claim)
        clock = self.locks.place.clock
        if repeatable:
            plan = turned(lambda: prepared.adopt_step(old, owner, now=clock()), claim.name, [])
        else:
            plan = adopt(prepared, old, owner, clock=clock)
        grant: Grant = await self.locks.run(plan, claim.name)
        return Taken(grant.fence, grant.sent)

    async def release_all(self, held: Sequence[Held]) -> int:
        """Releases what is still held of these, some at a time; returns how many."""
        done = 0
        for at in range(0, len(held), 100):
            some = await asyncio.gather(*[self.release(each) for each in held[at : at + 100]], return_exceptions=True)
            for each in some:
                if isinstance(each, BaseException) and not isinstance(each, LeaseLost):
                    raise each
                done += each is None
        return done
