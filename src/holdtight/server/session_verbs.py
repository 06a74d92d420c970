"""The verbs on sessions: open, beat, close."""

from typing import Any

from holdtight.aio.agent import Held, Taken
from holdtight.base.clock import seconds
from holdtight.base.names import check_label, check_name
from holdtight.base.values import Claim, LossReason
from holdtight.server import bodies
from holdtight.server.principal import Principal
from holdtight.server.problems import bad
from holdtight.server.service import Service
from holdtight.server.terms import gone
from holdtight.server.texts import LeaseText, SessionText
from holdtight.stores.boundary import SessionEntry

__all__ = ["session_beat", "session_close", "session_open"]

SHORTEST_SESSION, LONGEST_SESSION = 1.0, 3600.0

Answer = tuple[int, dict[str, Any]]
_LOSSES = {"e": LossReason.EXPIRED, "t": LossReason.TAKEN, "f": LossReason.FORCED}
_STATES = {reason: state for state, reason in _LOSSES.items()}


async def session_open(service: Service, principal: Principal, body: bodies.Open, started: float) -> Answer:
    ttl = seconds(body.ttl, "ttl")
    if not SHORTEST_SESSION <= ttl <= LONGEST_SESSION:
        raise bad(f"ttl={body.ttl!r} is out of range: a session has 1 s to 1 h")
    check_label(body.label)
    if body.host:
        check_name(body.host, "host")
    session = SessionText.fresh()
    await service.opened.reserve(principal.name, session.id)
    about = {
        "proof": session.proof(principal.name),
        "token": principal.name,
        "label": body.label,
        "host": body.host or principal.address,
        "pid": body.pid,
        "opened": round(service.now, 3),
    }
    sent = service.clock
    try:
        for said in await service.ask_all(service.sessions.open_steps(session.id, about, ttl)):
            if isinstance(said, Exception):
                raise service.locks.meaning(said, None)  # type: ignore[arg-type]
    except BaseException:
        service.opened.forget(principal.name, session.id)
        raise
    service.opened.keep(principal.name, session.id, ttl)
    service.history.note("session_opened", by=principal.name, session=session.id.hex())
    found = {"session": session.text(), "id": session.id.hex(), "ttl": ttl, "valid": service.valid(ttl, sent, started)}
    return 201, found


async def session_beat(service: Service, principal: Principal, body: bodies.Beat, started: float) -> Answer:
    session = SessionText.read(body.session)
    proof = session.proof(principal.name)
    sent = service.clock
    found = await service.ask(service.sessions.beat_step(session.id, proof))
    if found is None:
        service.opened.forget(principal.name, session.id)
        raise gone()
    service.opened.keep(principal.name, session.id, found.ttl)
    entries = [each for each in found.entries if each.state == "h"]
    held = [Held(each.name, each.kind, each.n, each.owner, each.fence) for each in entries]
    lists: dict[str, list[dict[str, Any]]] = {"leases": [], "lost": [], "unknown": []}
    for each in found.entries:
        if each.state in _LOSSES:
            lists["lost"].append(_told(each, found.ttl, _LOSSES[each.state]))
    losses: list[tuple[SessionEntry, LossReason]] = []
    for entry, answer in zip(entries, await service.agent.renew_all(held, found.ttl), strict=True):
        if isinstance(answer, Taken):
            lists["leases"].append(_told(entry, found.ttl, None))
        elif answer is None:
            lists["unknown"].append(_told(entry, found.ttl, None))
        else:
            losses.append((entry, answer))
    steps: list[Any] = [service.sessions.record_step(session.id, found.about, found.ttl)]
    for entry, reason in losses:
        marked = entry._replace(state=_STATES.get(reason, "e"))
        steps.append(service.sessions.lose_step(session.id, proof, marked))
    for (entry, reason), its_own in zip(losses, (await service.ask_all(steps))[1:], strict=True):
        if its_own is None:
            service.opened.forget(principal.name, session.id)
            raise gone()  # it was closed since it was read, and its locks with it
        if its_own is not False:  # a release or downgrade since it was read is no loss
            lists["lost"].append(_told(entry, found.ttl, reason))
            service.history.note("lost", entry.name, entry.fence, principal.name, reason=reason.value)
    return 200, {"ttl": found.ttl, "valid": service.valid(found.ttl, sent, started), **lists}


def _told(entry: SessionEntry, ttl: float, reason: LossReason | None) -> dict[str, Any]:
    held = Held(entry.name, entry.kind, entry.n, entry.owner, entry.fence)
    return {
        "lease": LeaseText(held, ttl).text(),
        "name": entry.name,
        "kind": entry.kind.value,
        "fence": entry.fence,
        "reason": reason.value if reason else None,
    }


async def session_close(service: Service, principal: Principal, body: bodies.Close, started: float) -> Answer:
    session = SessionText.read(body.session)
    found = await service.ask(service.sessions.beat_step(session.id, session.proof(principal.name)))
    if found is None:
        if await service.ask(service.sessions.ttl_step(session.id)) is not None:
            raise gone()  # it lives, and is of another token
        return 200, {"released": 0}
    released = await close(service, found, principal.name)
    service.opened.forget(principal.name, session.id)
    return 200, {"released": released}


async def close(service: Service, session: Any, by: str) -> int:
    """Releases what the session holds, and leaves every line in which it stands."""
    held = [Held(each.name, each.kind, each.n, each.owner, each.fence) for each in session.entries if each.state == "h"]
    released = await service.agent.release_all(held)
    for each in session.entries:
        if each.state == "w":
            claim = Claim(each.name, session.ttl, None, each.kind, each.n, each.n)
            await service.agent.leave(claim, each.owner, granted_too=True)
    await service.ask(service.sessions.close_step(session.id))
    for each in released:
        service.history.note("released", each.name, each.fence, by)
    service.history.note("session_closed", by=by, session=session.id.hex())
    return len(released)
