"""Operators release locks and close sessions by force, through the API."""

import os
from typing import Any

from holdtight.aio.agent import Held
from holdtight.base.names import check_name
from holdtight.base.operations import AuditRecord
from holdtight.base.plan import ServerSaid
from holdtight.base.values import Claim
from holdtight.clients.outside import LONGEST_REASON, check_text
from holdtight.core.force import Order
from holdtight.server import bodies
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.service import Service
from holdtight.server.shapes import digits, holder_full, owner_digits
from holdtight.stores.boundary import SessionEntry

__all__ = ["audit_dict", "force_close", "force_release", "note_again"]

Answer = tuple[int, dict[str, Any]]


def _about(principal: Principal, action: str, name: str, reason: str) -> dict[str, Any]:
    return {
        "id": os.urandom(16).hex(),
        "action": action,
        "name": name,
        "by": principal.name,
        "reason": reason,
        "host": principal.address,
        "pid": None,
    }


async def _force(
    service: Service, principal: Principal, about: dict[str, Any], owner: str | None
) -> AuditRecord | None:
    locks, name, reason = service.locks, about["name"], about["reason"]
    plan = locks.verbs.force(locks.place, locks.lock(name).prepared, Order(about, owner), {})
    record = locks.report_forced(await locks.run(plan, name))
    if record is not None:
        service.history.note("forced", name, record.fence, principal.name, reason=reason)
    return record


async def force_release(service: Service, principal: Principal, body: bodies.ForceRelease, started: float) -> Answer:
    check_name(body.name)
    check_text(body.reason, "reason", LONGEST_REASON)
    principal.need_name(body.name)
    owner = None
    if body.owner is not None:
        info = await service.locks.inspect(body.name)
        owner = next((each.owner for each in info.holders if owner_digits(each.owner) == body.owner), None)
        if owner is None:
            return 200, {"released": 0, "fence": None}
    record = await _force(service, principal, _about(principal, "force_release", body.name, body.reason), owner)
    service.survey.stale()
    if record is None:
        return 200, {"released": 0, "fence": None}
    return 200, {"released": len(record.holders), "fence": record.fence}


async def force_close(service: Service, principal: Principal, body: bodies.ForceClose, started: float) -> Answer:
    check_text(body.reason, "reason", LONGEST_REASON)
    session = bytes.fromhex(body.id)
    found, _ = await service.ask_all(service.sessions.look_steps(session))
    if found is None or isinstance(found, Exception):
        raise Problem(410, "SESSION_GONE", "no such session: it was closed, or its time ran out")
    if not _sees_all_of(principal, found):
        raise Problem(403, "FORBIDDEN", f"the token {principal.name!r} is not for all names of this session")
    # The record comes first: without the right to write it, the operator must not act.
    closing = _about(principal, "force_close", "", body.reason)
    for said in await service.ask_all(service.sessions.forced_steps(found, closing, service.now)):
        if isinstance(said, ServerSaid):
            raise service.locks.meaning(said, None)
    released = 0
    for each in found.entries:
        if each.state == "h":
            held = Held(each.name, each.kind, each.n, each.owner, each.fence)
            info = await service.locks.inspect(each.name)
            text = next((one.owner for one in info.holders if owner_digits(one.owner) == digits(held.owner)), None)
            about = _about(principal, "force_close", each.name, body.reason)
            if text is not None and await _force(service, principal, about, text) is not None:
                released += 1
        elif each.state == "w":
            claim = Claim(each.name, found.ttl, None, each.kind, each.n, each.n)
            await service.agent.leave(claim, each.owner, granted_too=True)
    await service.ask(service.sessions.close_step(session))
    service.opened.forget(found.about.get("token"), session)
    service.all_sessions.stale()
    service.history.note("session_closed", by=principal.name, session=body.id, reason=body.reason)
    service.survey.stale()
    return 200, {"released": released}


def _sees_all_of(principal: Principal, session: Any) -> bool:
    """An operator that is bound to prefixes closes a session only if it may see all of its names. A session without
    names it closes only if the same token has opened it."""
    if not all(principal.sees(each.name) for each in session.entries):
        return False
    return principal.whole or session.about.get("token") == principal.name or bool(session.entries)


async def note_again(service: Service, session: bytes, held: Held) -> None:
    """Writes a session's lease anew, under its new kind and fence."""
    found, _ = await service.ask_all(service.sessions.look_steps(session))
    if found is None or isinstance(found, Exception):
        return
    entry = SessionEntry(held.owner, "h", held.kind, held.n, held.fence, held.name)
    await service.ask(service.sessions.enrol_step(session, found.about["proof"], entry))


def audit_dict(record: AuditRecord, now: float) -> dict[str, Any]:
    found = record.as_dict()
    found["holders"] = [holder_full(each, now) for each in record.holders]
    found["next"] = owner_digits(record.next) if record.next else None
    return found
