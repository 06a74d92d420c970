"""The verbs of the API: each takes a decoded body and a principal, and returns a status and an answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdtight.aio.agent import Attempt, Held, Taken
from holdtight.base import refusals
from holdtight.base.clock import seconds, ttl_seconds
from holdtight.base.names import check_label, check_name
from holdtight.base.values import Claim, Kind, LossReason
from holdtight.core.contend import Kept
from holdtight.errors import DeadlockDetected, LockError, LockTimeout, NotOwner, Unavailable
from holdtight.grants.lease import Detached
from holdtight.server import bodies, forcing
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem, bad
from holdtight.server.service import Service
from holdtight.server.session_verbs import session_beat, session_close, session_open
from holdtight.server.terms import Terms, gone
from holdtight.server.texts import LeaseText, derive
from holdtight.stores.boundary import SessionEntry

__all__ = ["VERBS", "Verb"]

LONGEST_WAIT = 50.0
OLD = 1.0
KEEP = 5.0
"""How long a place in line stays without a request, in seconds."""

Answer = tuple[int, dict[str, Any]]
Verb = Callable[[Service, Principal, Any, float], Awaitable[Answer]]


def _claim(body: bodies.Acquire, ttl: float) -> Claim:
    check_name(body.name)
    label = check_label(body.label)
    kind = Kind(body.kind)
    if kind is not Kind.PERMITS:
        if body.n is not None or body.permits is not None:
            raise bad("n: only kind permits has n and permits")
        return Claim(body.name, ttl, label, kind)
    if body.permits is None:
        raise bad("permits: kind permits needs the number of permits that there are")
    n = body.n or 1
    if n > body.permits:
        raise bad(f"n={n} is more than the {body.permits} permits that there are")
    return Claim(body.name, ttl, label, kind, n, body.permits)


async def acquire(service: Service, principal: Principal, body: bodies.Acquire, started: float) -> Answer:
    terms = Terms(principal, body.session, body.ttl)
    claim = _claim(body, terms.ttl)
    principal.need_name(claim.name)
    wait = seconds(body.wait, "wait") if body.wait != 0 else 0.0
    if wait > LONGEST_WAIT:
        raise bad(f"wait={body.wait!r} is out of range: at most {LONGEST_WAIT:.0f} s; ask again with the request id")
    if body.stay and body.request is None:
        raise bad("stay: a place that stays needs a request id")
    holding = [_lease(principal, each, member="holding").held for each in body.holding] if body.holding else ()
    owner = derive(terms.id, terms.secret, claim.kind, claim.n, claim.name, body.request)
    upkeep = None
    if (wait or body.stay) and owner not in service.polls:
        service.may_wait(principal)  # before the owner is written into the session
    if terms.session is not None:
        entry = SessionEntry(owner, "w", claim.kind, claim.n, 0, claim.name)
        await terms.enrol(service, entry)
        claim = claim._replace(ttl=terms.ttl)
        upkeep = terms.upkeep(service, entry) if wait else None
    attempt = Attempt(
        service.agent,
        claim,
        owner,
        wait=wait,
        stay=body.stay,
        repeatable=body.request is not None,
        holding=holding,
        who=f"token {principal.name}",
    )
    begun = service.clock
    try:
        taken = await service.acquire(attempt, principal, upkeep)
    except Kept as kept:
        return await _waiting(service, claim, owner, terms, kept, begun)
    except asyncio.CancelledError:
        if terms.session is not None:
            service.later(terms.strike(service, owner))  # the client has hung up
        raise
    except Problem as problem:
        # For a shutdown, or a newer poll, an owner that may ask again keeps its entry, as it keeps its place.
        if body.request is None or problem.code == "LIMIT_REACHED":
            service.later(terms.strike(service, owner))
        raise
    except LockError as error:
        await terms.strike(service, owner)
        kind = "timed_out" if isinstance(error, LockTimeout) else "deadlock" if error.code == "DEADLOCK" else ""
        if kind and (wait or kind == "deadlock"):
            service.history.note(kind, claim.name, by=principal.name, waited=round(service.clock - begun, 4))
        if isinstance(error, DeadlockDetected) and not all(map(principal.sees, error.cycle)):
            detail = "deadlock: locks wait for each other, and some are not for this token. Release what you hold."
            raise Problem(409, error.code, detail, name=claim.name) from error
        raise
    held = Held(claim.name, claim.kind, claim.n, owner, taken.fence)
    if terms.session is not None:
        await _note_held(service, terms, held)
    return _granted(service, principal, held, terms, taken, started, max(0.0, taken.sent - begun))


def _granted(
    service: Service,
    principal: Principal,
    held: Held,
    terms: Terms,
    taken: Taken,
    started: float,
    waited: float,
    kind: str = "granted",
) -> Answer:
    name, history = held.name, service.history
    if taken.expired:
        history.note("expired", name, by=principal.name)
    if _is_new(service, held.fence, started):
        history.note(kind, name, held.fence, principal.name, waited=round(waited, 4), owner=held.owner)
    return 200, {
        "state": "held",
        "lease": LeaseText(held, terms.ttl).text(),
        "name": name,
        "kind": held.kind.value,
        "n": held.n,
        "fence": held.fence,
        "ttl": terms.ttl,
        "valid": service.valid(terms.ttl, taken.sent, started),
        "waited": round(waited, 6),
        "previous_expired": taken.expired,
    }


def _is_new(service: Service, fence: int, started: float) -> bool:
    """Whether the grant is to be told: one that is much older than the request was told before, perhaps by another
    instance."""
    return service.now - fence / 1e6 < service.clock - started + OLD


async def _note_held(service: Service, terms: Terms, held: Held) -> None:
    entry = SessionEntry(held.owner, "h", held.kind, held.n, held.fence, held.name)
    try:
        if await terms.enrol(service, entry, 0) == "gone":
            # A release or a closing has struck it off. If it was not of this very grant, the grant counts.
            if not await service.still_held(held, terms.ttl):
                raise gone()
            await terms.enrol(service, entry)
    except Problem:
        await service.agent.release(held)  # its session has ended: nobody would renew it, or knows of it
        raise


async def _waiting(service: Service, claim: Claim, owner: bytes, terms: Terms, kept: Kept, begun: float) -> Answer:
    held = Held(claim.name, claim.kind, claim.n, owner, 0)
    return 202, {
        "state": "waiting",
        "lease": LeaseText(held, terms.ttl).text(),
        "name": claim.name,
        "position": kept.queued.position,
        "holder": await service.survey.holder(kept.queued.holder, claim.name, kept.queued.left),
        "waited": round(service.clock - begun, 6),
        "keep": KEEP,
    }


async def renew(service: Service, principal: Principal, body: bodies.Renew, started: float) -> Answer:
    lease = _lease(principal, body.lease)
    if lease.in_session and body.ttl is not None:
        raise bad("ttl: a lease of a session has the ttl of its session")
    ttl = await _ttl(service, lease) if body.ttl is None else ttl_seconds(body.ttl, renewed=True)
    answer = await service.agent.renew(lease.held, ttl)
    if answer is None:
        raise Unavailable.because(lease.held.name, "the lock server", "the renewal was not confirmed")
    if isinstance(answer, LossReason):
        service.history.note("lost", lease.held.name, lease.held.fence, principal.name, reason=answer.value)
        raise _lost(lease.held.name, answer)
    return 200, {
        "lease": lease._replace(ttl=ttl).text(),
        "name": lease.held.name,
        "fence": lease.held.fence,
        "ttl": ttl,
        "valid": service.valid(ttl, answer.sent, started),
    }


async def release(service: Service, principal: Principal, body: bodies.Release, started: float) -> Answer:
    lease = _lease(principal, body.lease, place_too=True)
    held = lease.held
    reason = None
    if held.fence:
        reason = await service.agent.release(held)
    else:
        claim = Claim(held.name, lease.ttl, None, held.kind, held.n, held.n)
        await service.agent.leave(claim, held.owner)
        if await service.agent.holds(claim, held.owner):
            raise _granted_meanwhile(held.name)
    if lease.in_session:
        await service.ask(service.sessions.strike_step(lease.session_id, held.owner, held.fence))
    if reason is not None and not body.again:
        raise NotOwner.on("release", held.name, reason)
    if held.fence and reason is None:
        service.history.note("released", held.name, held.fence, principal.name, owner=held.owner)
    return 200, {"released": True}


async def downgrade(service: Service, principal: Principal, body: bodies.Downgrade, started: float) -> Answer:
    lease = _lease(principal, body.lease)
    held = lease.held
    if held.kind is not Kind.EXCLUSIVE:
        raise refusals.downgrade_a_reader(held.name)
    ttl = await _ttl(service, lease)
    taken = await service.agent.downgrade(held, ttl, await _label(service, held))
    reading = held._replace(kind=Kind.SHARED, fence=taken.fence)
    if lease.in_session:
        await forcing.note_again(service, lease.session_id, reading)
    if _is_new(service, taken.fence, started):
        service.history.note("downgraded", held.name, taken.fence, principal.name)
    return 200, {
        "state": "held",
        "lease": LeaseText(reading, ttl).text(),
        "name": held.name,
        "kind": reading.kind.value,
        "n": 1,
        "fence": taken.fence,
        "ttl": ttl,
        "valid": service.valid(ttl, taken.sent, started),
        "waited": 0.0,
        "previous_expired": False,
    }


async def detach(service: Service, principal: Principal, body: bodies.Detach, started: float) -> Answer:
    lease = _lease(principal, body.lease)
    held = lease.held
    if held.kind is not Kind.EXCLUSIVE:
        raise refusals.detach_shared(held.name, held.kind.text)
    ttl = await _ttl(service, lease) if body.ttl is None else ttl_seconds(body.ttl, renewed=False)
    answer = await service.agent.renew(held, ttl)
    if answer is None:
        raise Unavailable.because(held.name, "the lock server", "the renewal was not confirmed")
    if isinstance(answer, LossReason):
        raise NotOwner.on("detach", held.name, answer)
    if lease.in_session:
        await service.ask(service.sessions.strike_step(lease.session_id, held.owner, held.fence))
    service.history.note("detached", held.name, held.fence, principal.name)
    return 200, {"text": Detached(held.name, held.owner).text(), "ttl": ttl}


async def adopt(service: Service, principal: Principal, body: bodies.Adopt, started: float) -> Answer:
    detached = Detached.read(body.text)
    principal.need_name(detached.name)
    label = check_label(body.label)
    terms = Terms(principal, body.session, body.ttl)
    owner = derive(terms.id, terms.secret, Kind.EXCLUSIVE, 1, detached.name, body.request)
    await terms.enrol(service, SessionEntry(owner, "w", Kind.EXCLUSIVE, 1, 0, detached.name))
    claim = Claim(detached.name, terms.ttl, label)
    try:
        taken = await service.agent.adopt(claim, detached.owner, owner, repeatable=body.request is not None)
    except LockError:
        await terms.strike(service, owner)
        raise
    held = Held(detached.name, Kind.EXCLUSIVE, 1, owner, taken.fence)
    if terms.session is not None:
        await _note_held(service, terms, held)
    return _granted(service, principal, held, terms, taken, started, 0.0, "adopted")


async def _ttl(service: Service, lease: LeaseText) -> float:
    """A lease of a session has the ttl of its session, which is asked: none outlives the beats of its client."""
    if not lease.in_session:
        return lease.ttl
    ttl: float | None = await service.ask(service.sessions.ttl_step(lease.session_id))
    if ttl is None:
        await service.agent.release(lease.held)  # nobody beats for it
        raise _lost(lease.held.name, LossReason.EXPIRED)
    return ttl


async def _label(service: Service, held: Held) -> str | None:
    info = await service.locks.inspect(held.name)
    return next((each.label for each in info.holders if each.fence == held.fence), None)


def _lost(name: str, reason: LossReason) -> Problem:
    detail = f"the lease is lost: {reason.text}. Stop the work that it protects."
    return Problem(410, "WATCHDOG_RENEWAL_FAILED", detail, name=name, reason=reason.value)


def _granted_meanwhile(name: str) -> Problem:
    detail = "the request was granted meanwhile: acquire with the same request id to get its lease, then release that."
    return Problem(409, "GRANTED", detail, name=name)


def _lease(principal: Principal, text: str, *, place_too: bool = False, member: str = "lease") -> LeaseText:
    lease = LeaseText.read(text, member)
    principal.need_name(lease.held.name)
    if not lease.held.fence and not place_too:
        raise bad(f"{member}: this is a place in line, not a lease; acquire with the same request id")
    return lease


VERBS: dict[str, tuple[type[bodies.Body], str, Verb]] = {
    "session/open": (bodies.Open, "lock", session_open),
    "session/beat": (bodies.Beat, "lock", session_beat),
    "session/close": (bodies.Close, "lock", session_close),
    "acquire": (bodies.Acquire, "lock", acquire),
    "renew": (bodies.Renew, "lock", renew),
    "release": (bodies.Release, "lock", release),
    "downgrade": (bodies.Downgrade, "lock", downgrade),
    "detach": (bodies.Detach, "lock", detach),
    "adopt": (bodies.Adopt, "lock", adopt),
    "force-release": (bodies.ForceRelease, "admin", forcing.force_release),
    "force-close": (bodies.ForceClose, "admin", forcing.force_close),
}
"""By path below /v1/: the body, the role that is needed, and the function."""
