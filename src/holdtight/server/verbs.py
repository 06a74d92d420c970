"""The verbs of the API: each takes a decoded body and a principal, and returns a status and an answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdtight.aio.agent import Held, Taken
from holdtight.base import refusals
from holdtight.base.clock import seconds, ttl_seconds
from holdtight.base.values import Claim, Kind, LossReason, check_label, check_name
from holdtight.core.contend import Kept
from holdtight.errors import LockError, LockTimeout, NotOwner, Unavailable
from holdtight.grants.lease import Detached
from holdtight.server import bodies, forcing
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.service import MOST_LEASES, Service
from holdtight.server.texts import LeaseText, SessionText, derive
from holdtight.stores.boundary import SessionEntry

__all__ = ["VERBS", "Verb"]

LONGEST_WAIT = 50.0
SHORTEST_SESSION, LONGEST_SESSION = 1.0, 3600.0
KEEP = 5.0
"""How long a place in line stays without a request, in seconds."""

Answer = tuple[int, dict[str, Any]]
Verb = Callable[[Service, Principal, Any, float], Awaitable[Answer]]
_LOSSES = {"e": LossReason.EXPIRED, "t": LossReason.TAKEN, "f": LossReason.FORCED}
_STATES = {reason: state for state, reason in _LOSSES.items()}


def bad(detail: str) -> Problem:
    return Problem(400, "BAD_REQUEST", detail)


# Sessions


async def session_open(service: Service, principal: Principal, body: bodies.Open, started: float) -> Answer:
    ttl = seconds(body.ttl, "ttl")
    if not SHORTEST_SESSION <= ttl <= LONGEST_SESSION:
        raise bad(f"ttl={body.ttl!r} is out of range: a session has 1 s to 1 h")
    check_label(body.label)
    if body.host:
        check_name(body.host, "host")
    service.may_open(principal.name)
    session = SessionText.fresh()
    about = {
        "proof": session.proof(principal.name),
        "token": principal.name,
        "label": body.label,
        "host": body.host or principal.address,
        "pid": body.pid,
        "opened": round(service.now, 3),
    }
    sent = service.clock
    for said in await service.ask_all(service.sessions.open_steps(session.id, about, ttl)):
        if isinstance(said, Exception):
            raise service.locks.meaning(said, None)  # type: ignore[arg-type]
    service.keeps(principal.name, session.id, ttl)
    service.history.note("session_opened", by=principal.name, session=session.id.hex())
    found = {"session": session.text(), "id": session.id.hex(), "ttl": ttl, "valid": service.valid(ttl, sent, started)}
    return 201, found


async def session_beat(service: Service, principal: Principal, body: bodies.Beat, started: float) -> Answer:
    session = SessionText.read(body.session)
    proof = session.proof(principal.name)
    sent = service.clock
    found = await service.ask(service.sessions.beat_step(session.id, proof))
    if found is None:
        raise gone()
    service.keeps(principal.name, session.id, found.ttl)
    entries = [each for each in found.entries if each.state == "h"]
    held = [Held(each.name, each.kind, each.n, each.owner, each.fence) for each in entries]
    lists: dict[str, list[dict[str, Any]]] = {"leases": [], "lost": [], "unknown": []}
    for each in found.entries:
        if each.state in _LOSSES:
            lists["lost"].append(_told(each, found.ttl, _LOSSES[each.state]))
    steps: list[Any] = [service.sessions.keep_step(session.id, found.ttl)]
    for entry, answer in zip(entries, await service.agent.renew_all(held, found.ttl), strict=True):
        if isinstance(answer, Taken):
            lists["leases"].append(_told(entry, found.ttl, None))
        elif answer is None:
            lists["unknown"].append(_told(entry, found.ttl, None))
        else:
            lists["lost"].append(_told(entry, found.ttl, answer))
            marked = entry._replace(state=_STATES.get(answer, "e"))
            steps.append(service.sessions.enrol_step(session.id, proof, marked))
            service.history.note("lost", entry.name, entry.fence, principal.name, reason=answer.value)
    await service.ask_all(steps)
    return 200, {"ttl": found.ttl, "valid": service.valid(found.ttl, sent, started), **lists}


def _told(entry: SessionEntry, ttl: float, reason: LossReason | None) -> dict[str, Any]:
    held = Held(entry.name, entry.kind, entry.n, entry.owner, entry.fence)
    return {
        "lease": LeaseText(held, ttl, True).text(),
        "name": entry.name,
        "kind": entry.kind.value,
        "fence": entry.fence,
        "reason": reason.value if reason else None,
    }


async def session_close(service: Service, principal: Principal, body: bodies.Close, started: float) -> Answer:
    session = SessionText.read(body.session)
    found = await service.ask(service.sessions.beat_step(session.id, session.proof(principal.name)))
    if found is None:
        return 200, {"released": 0}
    released = await close(service, found, principal.name)
    service.opened.get(principal.name, {}).pop(session.id, None)
    return 200, {"released": released}


async def close(service: Service, session: Any, by: str) -> int:
    """Releases what the session holds, and leaves every line in which it stands."""
    held = [Held(each.name, each.kind, each.n, each.owner, each.fence) for each in session.entries if each.state == "h"]
    released = await service.agent.release_all(held)
    for each in session.entries:
        if each.state == "w":
            await service.agent.leave(Claim(each.name, session.ttl, None, each.kind, each.n, each.n), each.owner)
    await service.ask(service.sessions.close_step(session.id))
    for each in held:
        service.history.note("released", each.name, each.fence, by)
    service.history.note("session_closed", by=by, session=session.id.hex())
    return released


def gone() -> Problem:
    return Problem(410, "SESSION_GONE", "no such session: it was closed, its time ran out, or it is of another token")


# Locks


class _Terms:
    """Who takes the lock, and for how long: a session, or a ttl."""

    session: SessionText | None = None
    proof = ""
    ttl = 0.0

    def __init__(self, principal: Principal, session: str | None, ttl: bodies.Duration | None) -> None:
        if (session is None) == (ttl is None):
            raise bad("session: give a session, or a ttl for a lease of its own")
        self.id, self.secret = principal.owner_id, principal.owner_secret
        if session is not None:
            self.session = SessionText.read(session)
            self.proof = self.session.proof(principal.name)
            self.id, self.secret = self.session
        else:
            self.ttl = ttl_seconds(ttl, renewed=True)

    async def enrol(self, service: Service, entry: SessionEntry, most: int = MOST_LEASES) -> str | None:
        """Writes the owner into the session, and learns the session's ttl. Returns "gone" for an owner that was struck
        off meanwhile."""
        if self.session is None:
            return None
        found = await service.ask(service.sessions.enrol_step(self.session.id, self.proof, entry, most))
        if found is None:
            raise gone()
        if found == "full":
            raise Problem(429, "LIMIT_REACHED", f"a session may have {MOST_LEASES} leases", name=entry.name)
        if isinstance(found, float):
            self.ttl = found
            return None
        return str(found)

    async def strike(self, service: Service, owner: bytes) -> None:
        if self.session is not None:
            await service.ask(service.sessions.strike_step(self.session.id, owner))


def _claim(body: bodies.Acquire) -> Claim:
    check_name(body.name)
    label = check_label(body.label)
    kind = Kind(body.kind)
    if kind is not Kind.PERMITS:
        if body.n is not None or body.permits is not None:
            raise bad("n: only kind permits has n and permits")
        return Claim(body.name, 0.0, label, kind)
    if body.permits is None:
        raise bad("permits: kind permits needs the number of permits that there are")
    n = body.n or 1
    if n > body.permits:
        raise bad(f"n={n} is more than the {body.permits} permits that there are")
    return Claim(body.name, 0.0, label, kind, n, body.permits)


async def acquire(service: Service, principal: Principal, body: bodies.Acquire, started: float) -> Answer:
    claim = _claim(body)
    principal.need_name(claim.name)
    wait = seconds(body.wait, "wait")
    if wait > LONGEST_WAIT:
        raise bad(f"wait={body.wait!r} is out of range: at most {LONGEST_WAIT:.0f} s; ask again with the request id")
    if body.stay and body.request is None:
        raise bad("stay: a place that stays needs a request id")
    terms = _Terms(principal, body.session, body.ttl)
    holding = [LeaseText.read(each).held for each in body.holding]
    owner = derive(terms.id, terms.secret, claim.kind, claim.n, claim.name, body.request)
    entry = SessionEntry(owner, "w", claim.kind, claim.n, 0, claim.name)
    await terms.enrol(service, entry)
    claim = claim._replace(ttl=terms.ttl)
    attempt = service.agent.attempt(
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
        taken = await service.acquire(attempt, principal)
    except Kept as kept:
        return await _waiting(service, claim, owner, terms, kept, begun)
    except LockError as error:
        await terms.strike(service, owner)
        kind = "timed_out" if isinstance(error, LockTimeout) else "deadlock" if error.code == "DEADLOCK" else ""
        if kind and (wait or kind == "deadlock"):
            service.history.note(kind, claim.name, by=principal.name, waited=round(service.clock - begun, 4))
        raise
    waited = max(0.0, taken.sent - begun)
    return await _granted(service, principal, claim, owner, terms, taken, started, waited)


async def _granted(
    service: Service,
    principal: Principal,
    claim: Claim,
    owner: bytes,
    terms: _Terms,
    taken: Taken,
    started: float,
    waited: float,
    kind: str = "granted",
) -> Answer:
    held = Held(claim.name, claim.kind, claim.n, owner, taken.fence)
    entry = SessionEntry(owner, "h", claim.kind, claim.n, taken.fence, claim.name)
    if await terms.enrol(service, entry, 0) == "gone":
        # A release or a closing has struck it off. If it was not of this very grant, the grant counts.
        if not await service.still_held(held, terms.ttl):
            raise gone()
        await terms.enrol(service, entry)
    if taken.expired:
        service.history.note("expired", claim.name, by=principal.name)
    service.history.note(kind, claim.name, taken.fence, principal.name, waited=round(waited, 4), owner=owner)
    return 200, {
        "state": "held",
        "lease": LeaseText(held, terms.ttl, terms.session is not None).text(),
        "name": claim.name,
        "kind": claim.kind.value,
        "n": claim.n,
        "fence": taken.fence,
        "ttl": terms.ttl,
        "valid": service.valid(terms.ttl, taken.sent, started),
        "waited": round(waited, 6),
        "previous_expired": taken.expired,
    }


async def _waiting(service: Service, claim: Claim, owner: bytes, terms: _Terms, kept: Kept, begun: float) -> Answer:
    held = Held(claim.name, claim.kind, claim.n, owner, 0)
    return 202, {
        "state": "waiting",
        "lease": LeaseText(held, terms.ttl, terms.session is not None).text(),
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
    ttl = lease.ttl if body.ttl is None else ttl_seconds(body.ttl, renewed=True)
    answer = await service.agent.renew(lease.held, ttl)
    if answer is None:
        raise Unavailable.because(lease.held.name, "the lock server", "the renewal was not confirmed")
    if isinstance(answer, LossReason):
        service.history.note("lost", lease.held.name, lease.held.fence, principal.name, reason=answer.value)
        detail = f"the lease is lost: {answer.text}. Stop the work that it protects."
        raise Problem(410, "WATCHDOG_RENEWAL_FAILED", detail, name=lease.held.name, reason=answer.value)
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
        await service.agent.leave(Claim(held.name, lease.ttl, None, held.kind, held.n, held.n), held.owner)
    if lease.in_session:
        await service.ask(service.sessions.strike_step(lease.session_id, held.owner))
    if reason is not None and not (body.again and reason is not LossReason.FORCED):
        raise NotOwner.on("release", held.name, reason)
    if held.fence and reason is None:
        service.history.note("released", held.name, held.fence, principal.name, owner=held.owner)
    return 200, {"released": True}


async def downgrade(service: Service, principal: Principal, body: bodies.Downgrade, started: float) -> Answer:
    lease = _lease(principal, body.lease)
    held = lease.held
    if held.kind is not Kind.EXCLUSIVE:
        raise refusals.downgrade_a_reader(held.name)
    taken = await service.agent.downgrade(held, lease.ttl, None)
    claim = Claim(held.name, lease.ttl, None, Kind.SHARED)
    reading = held._replace(kind=Kind.SHARED, fence=taken.fence)
    if lease.in_session:
        await forcing.note_again(service, lease.session_id, reading)
    service.history.note("downgraded", held.name, taken.fence, principal.name)
    return 200, {
        "state": "held",
        "lease": LeaseText(reading, lease.ttl, lease.in_session).text(),
        "name": claim.name,
        "kind": claim.kind.value,
        "n": 1,
        "fence": taken.fence,
        "ttl": lease.ttl,
        "valid": service.valid(lease.ttl, taken.sent, started),
        "waited": 0.0,
        "previous_expired": False,
    }


async def detach(service: Service, principal: Principal, body: bodies.Detach, started: float) -> Answer:
    lease = _lease(principal, body.lease)
    held = lease.held
    if held.kind is not Kind.EXCLUSIVE:
        raise refusals.detach_shared(held.name, held.kind.text)
    ttl = lease.ttl if body.ttl is None else ttl_seconds(body.ttl, renewed=False)
    answer = await service.agent.renew(held, ttl)
    if answer is None:
        raise Unavailable.because(held.name, "the lock server", "the renewal was not confirmed")
    if isinstance(answer, LossReason):
        raise NotOwner.on("detach", held.name, answer)
    if lease.in_session:
        await service.ask(service.sessions.strike_step(lease.session_id, held.owner))
    service.history.note("detached", held.name, held.fence, principal.name)
    return 200, {"text": Detached(held.name, held.owner).text(), "ttl": ttl}


async def adopt(service: Service, principal: Principal, body: bodies.Adopt, started: float) -> Answer:
    detached = Detached.read(body.text)
    principal.need_name(detached.name)
    label = check_label(body.label)
    terms = _Terms(principal, body.session, body.ttl)
    owner = derive(terms.id, terms.secret, Kind.EXCLUSIVE, 1, detached.name, body.request)
    await terms.enrol(service, SessionEntry(owner, "w", Kind.EXCLUSIVE, 1, 0, detached.name))
    claim = Claim(detached.name, terms.ttl, label)
    try:
        taken = await service.agent.adopt(claim, detached.owner, owner, repeatable=body.request is not None)
    except LockError:
        await terms.strike(service, owner)
        raise
    return await _granted(service, principal, claim, owner, terms, taken, started, 0.0, "adopted")


def _lease(principal: Principal, text: str, *, place_too: bool = False) -> LeaseText:
    lease = LeaseText.read(text)
    principal.need_name(lease.held.name)
    if not lease.held.fence and not place_too:
        raise bad("lease: this is a place in line, not a lease; acquire with the same request id")
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
