"""What the API shows. Nothing here changes a lock, and nothing here shows a secret."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

from holdtight.base.clock import seconds
from holdtight.ops.history import template_of
from holdtight.server import wholes
from holdtight.server.forcing import audit_dict
from holdtight.server.minutes import summary
from holdtight.server.params import (
    MOST_LISTED,
    Params,
    choice,
    cursor,
    cursor_text,
    is_number,
    needed_name,
    number,
)
from holdtight.server.principal import Principal
from holdtight.server.problems import bad
from holdtight.server.service import Service
from holdtight.server.shapes import holder_full, owner_id, shown_row, waiter_full
from holdtight.server.watching import LOOK_EVERY

__all__ = ["LOOKS", "SORTS"]

MOST_WAIT = 50.0

Look = Callable[[Service, Principal, Params], Awaitable[dict[str, Any]]]

NEVER = -1e18
SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["name"],
    "age": lambda row: -row["since"] if row["since"] is not None else NEVER,
    "waiting": lambda row: row["waiting"],
    "left": lambda row: row["expires"] if row["expires"] is not None else NEVER,
    "fence": lambda row: row["fence"] or 0,
}
"""By what stays as it is while a client turns pages: an age grows and a time left shrinks meanwhile."""


# Lists


async def locks(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    limit = number(params, "limit", 50, MOST_LISTED)
    sort = choice(params, "sort", tuple(SORTS), "name") or "name"
    down = choice(params, "order", ("asc", "desc"), "asc" if sort == "name" else "desc") == "desc"
    kind = choice(params, "kind", ("exclusive", "shared", "permits"), None)
    state = choice(params, "state", ("held", "waiting"), None)
    after = cursor(params.get("cursor"))
    await service.survey.fresh()
    prefix = params.get("prefix", "")
    key = SORTS[sort]
    rows = service.survey.ordered(sort, key, down)
    if principal.prefixes or prefix:
        rows = [row for row in rows if row["name"].startswith(prefix) and principal.sees(row["name"])]
    text = params.get("q", "").casefold()
    if text:
        rows = [row for row in rows if text in row["name"].casefold() or _mentions(row, text)]
    if kind:
        rows = [row for row in rows if row["kind"] == kind]
    if state:
        rows = [row for row in rows if row["held" if state == "held" else "waiting"]]
    total = len(rows)
    if after is not None:
        try:
            rows = [
                row for row in rows if ((key(row), row["name"]) < after if down else (key(row), row["name"]) > after)
            ]
        except TypeError:
            raise bad("cursor: belongs to another sort") from None
    page = rows[:limit]
    last = page[-1] if len(rows) > limit else None
    return {
        "locks": [shown_row(row, service.survey.at) for row in page],
        "next": cursor_text(key(last), last["name"]) if last is not None else None,
        "total": total,
        "age": round(max(0.0, service.now - service.survey.at), 3),
    }


def _mentions(row: dict[str, Any], text: str) -> bool:
    return any(text in (word or "").casefold() for each in row["holders"] for word in (each.host, each.label))


async def audit(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    limit = number(params, "limit", 50, MOST_LISTED)
    name = params.get("name")
    if name is not None:
        name = needed_name(params, principal)
    records = [each for each in await service.locks.audit(1000, name=name) if principal.sees(each.name)]
    after = params.get("cursor")
    if after is not None:
        at = next((at for at, each in enumerate(records) if each.id == after), None)
        if at is None:
            raise bad("cursor: is not one that a list gave")
        records = records[at + 1 :]
    page = records[:limit]
    return {
        "records": [audit_dict(each, service.now) for each in page],
        "next": page[-1].id if len(records) > limit else None,
    }


# One lock


async def lock(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    name = needed_name(params, principal)
    history = service.history
    info, happened, recent = await asyncio.gather(
        service.locks.inspect(name), history.tail.of(name), history.minutes.recent(60)
    )
    now = service.now
    owned = await wholes.sessions_in(service, [info], 50)
    template = template_of(name)
    whole = principal.sees_template(template)
    hold = recent.summary("h", template) if whole else summary(None)
    kind = info.kind or (info.waiters[0].kind if info.waiters else None)
    return {
        "name": name,
        "kind": kind.value if kind else None,
        "fence": info.fence,
        "holders": [holder_full(each, now, owned.get(owner_id(each.owner)), principal) for each in info.holders],
        "waiters": [waiter_full(each, now, owned.get(owner_id(each.owner))) for each in info.waiters],
        "waiting": info.waiting,
        "history": happened,
        "wait": recent.summary("w", template) if whole else summary(None),
        "hold": hold,
        "template": template,
        "suggested_ttl": _suggested(hold),
        "at": round(now, 3),
    }


def _suggested(hold: dict[str, Any]) -> float | None:
    """Three times what nearly every holder needs: a pause of a holder then does not cost it the lock."""
    if hold["n"] < 20 or hold["p99"] is None:
        return None
    return float(min(3600.0, max(3.0, math.ceil(3 * hold["p99"]))))


async def leader(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    """Returns when the leader is not the one whose fence is `after`, or when the wait ends."""
    name = needed_name(params, principal)
    after = number(params, "after", -1, 2**53 - 1, 0)
    wait = seconds(float(params["wait"]) if is_number(params.get("wait")) else params.get("wait", 0), "wait")
    if wait > MOST_WAIT:
        raise bad(f"wait: at most {MOST_WAIT:.0f} s")
    end = service.clock + wait
    found = await service.leaders.look(name)
    if found["fence"] != after or not wait:
        return {"name": name, **found}
    with service.waiting(principal), service.leaders.watching(name) as shared:
        while found["fence"] == after and not service.draining and (left := end - service.clock) > 0:
            await asyncio.sleep(min(LOOK_EVERY, left))
            found = await shared.get()
    return {"name": name, **found}


async def me(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    return {
        "token": principal.name,
        "role": principal.role,
        "prefixes": list(principal.prefixes),
        "csrf": principal.csrf,
    }


LOOKS: dict[str, tuple[Look, str, tuple[str, ...], bool]] = {
    "locks": (locks, "read", ("prefix", "q", "kind", "state", "sort", "order", "limit", "cursor"), False),
    "lock": (lock, "read", ("name",), False),
    "leader": (leader, "read", ("name", "after", "wait"), True),
    "graph": (wholes.graph, "read", (), False),
    "stats": (wholes.stats, "read", ("minutes",), False),
    "nodes": (wholes.nodes, "read", (), False),
    "sessions": (wholes.sessions, "read", ("limit", "cursor"), False),
    "audit": (audit, "admin", ("limit", "cursor", "name"), False),
    "me": (me, "read", (), False),
}
"""By path below /v1/: the function, the role, the parameters, and whether it may wait."""
