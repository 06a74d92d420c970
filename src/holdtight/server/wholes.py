"""Looks at the whole: counts, the graph, the lock server, the sessions. Each is read once for all who look."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdtight.base.values import LockInfo
from holdtight.server.graph import graph_of
from holdtight.server.params import MOST_LISTED, Params, cursor, cursor_text, number
from holdtight.server.principal import Principal
from holdtight.server.problems import bad
from holdtight.server.shapes import owner_id

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["all_sessions", "graph", "nodes", "sessions", "sessions_in", "stats"]

SESSIONS_IN_A_READ = 100


async def stats(service: "Service", principal: Principal, params: Params) -> dict[str, Any]:
    recent = await service.history.minutes.recent(number(params, "minutes", 60, 180))
    await service.survey.fresh()
    view = service.survey.view(principal)
    whole = principal.whole  # counts are of all names
    per_minute: list[dict[str, Any]] = [
        {
            "minute": at * 60,
            **{word: each.counts.get(word, 0) for word in ("granted", "released", "timed_out", "forced", "expired")},
            "lost": each.counts.get("lost", 0),
            **each.waited,
        }
        for at, each in recent.minutes.items()
        if whole
    ]
    latest = list(recent.minutes.values())[-2:]
    span = service.now % 60 + (60 if len(latest) > 1 else 0)
    granted = sum(each.counts.get("granted", 0) for each in latest)
    return {
        "held": view.held,
        "waiting": view.waiting,
        "locks": len(view.rows),
        "lost": sum(each.lost for each in recent.minutes.values()) if whole else None,
        "rate": round(granted / max(1.0, span), 3) if whole else None,
        "minutes": per_minute,
        "templates": [each for each in recent.templates() if principal.sees_template(each["template"])][:50],
        "sampled": True,
        "at": round(service.now, 3),
    }


async def graph(service: "Service", principal: Principal, params: Params) -> dict[str, Any]:
    survey = service.survey
    await survey.fresh()
    infos = [info for info in survey.infos if info.waiting and principal.sees(info.name)]
    return graph_of(infos, survey.awaiting, await sessions_in(service, infos, 1000), principal.sees)


async def nodes(service: "Service", principal: Principal, params: Params) -> dict[str, Any]:
    # Clients of the service choose their ttl themselves: none is too long for it.
    shown = [each.as_dict() for each in await service.findings.get() if each.id != "PTTL_ABOVE_TTL"]
    up = not any(each.get("severity") == "error" for each in shown)
    all_of_it = principal.may("admin") and principal.whole  # what was seen has names in it
    where = service.locks.place.display if all_of_it else "the lock server"
    if not all_of_it:
        shown = [{word: each[word] for word in ("id", "severity", "means", "change")} for each in shown]
    return {"nodes": [{"name": where, "up": up, "findings": shown}], "namespace": service.locks.settings.namespace}


async def sessions(service: "Service", principal: Principal, params: Params) -> dict[str, Any]:
    limit = number(params, "limit", MOST_LISTED, MOST_LISTED)
    after = cursor(params.get("cursor"))
    found: list[dict[str, Any]] = []
    for session in await service.all_sessions.get():
        about = session.about
        if about.get("token") != principal.name and not principal.may("admin"):
            continue
        held = [each for each in session.entries if each.state == "h" and principal.sees(each.name)]
        if principal.prefixes and about.get("token") != principal.name and not held:
            continue
        found.append(
            {
                "id": session.id.hex(),
                "token": about.get("token"),
                "label": about.get("label"),
                "host": about.get("host"),
                "pid": about.get("pid"),
                "opened": about.get("opened"),
                "ttl": session.ttl,
                "left": session.left,
                "leases": len(held),
                "names": [each.name for each in held[:5]],
                "waiting": sum(1 for each in session.entries if each.state == "w" and principal.sees(each.name)),
                "lost": sum(1 for each in session.entries if each.state in "etf" and principal.sees(each.name)),
            }
        )
    total = len(found)
    if after is not None:
        if isinstance(after[0], str):
            raise bad("cursor: belongs to another list")
        found = [each for each in found if (each["opened"] or 0, each["id"]) < after]
    found.sort(key=lambda each: (each["opened"] or 0, each["id"]), reverse=True)
    page = found[:limit]
    last = page[-1] if len(found) > limit else None
    return {
        "sessions": page,
        "next": cursor_text(last["opened"] or 0, last["id"]) if last is not None else None,
        "total": total,
    }


async def all_sessions(service: "Service") -> list[Any]:
    ids: list[bytes] = []
    at = b"0"
    while True:
        at, some = await service.ask(service.sessions.scan_step(at))
        ids += some
        if at == b"0":
            break
    ids = list(dict.fromkeys(ids))
    found: list[Any] = []
    for start in range(0, len(ids), SESSIONS_IN_A_READ):
        steps = [step for each in ids[start : start + SESSIONS_IN_A_READ] for step in service.sessions.look_steps(each)]
        answers = await service.ask_all(steps)
        for session, left in zip(answers[::2], answers[1::2], strict=True):
            if session is not None and not isinstance(session, Exception) and isinstance(left, int):
                found.append(session._replace(left=max(0, left) / 1000))
        await asyncio.sleep(0)
    return found


async def sessions_in(service: "Service", infos: Iterable[LockInfo], most: int) -> dict[bytes, str]:
    """Which clients of these locks' owners are sessions."""
    owners: list[str] = []
    for info in infos:
        owners += [each.owner for each in info.holders[:most]]
        owners += [each.owner for each in info.waiters[:most]]
        if len(owners) > 4 * most:
            break
    ids = list(dict.fromkeys(map(owner_id, owners)))[:most]
    found = await service.ask_all([service.sessions.left_step(each) for each in ids])
    return {each: each.hex() for each, left in zip(ids, found, strict=True) if isinstance(left, int) and left >= 0}
