"""What the API shows. Nothing here changes a lock, and nothing here shows a secret."""

import asyncio
import base64
import json
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdtight.base.clock import seconds
from holdtight.base.values import LockInfo, check_name
from holdtight.ops.history import template_of
from holdtight.server.forcing import audit_dict
from holdtight.server.graph import graph_of
from holdtight.server.history import percentiles, summary
from holdtight.server.principal import Principal
from holdtight.server.problems import bad
from holdtight.server.service import Service
from holdtight.server.shapes import holder_dict, holder_full, owner_id, shown_row, waiter_full

__all__ = ["LOOKS", "MOST_LISTED", "SORTS", "leader_of"]

MOST_LISTED = 500
MOST_WAIT = 50.0
LOOK_EVERY = 0.25
HISTORY = 50
READ_BACK = 2000
"""How many events are read to find those of one lock."""

Params = dict[str, str]
Look = Callable[[Service, Principal, Params], Awaitable[dict[str, Any]]]

SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["name"],
    "age": lambda row: row["age"] if row["age"] is not None else -1.0,
    "waiting": lambda row: row["waiting"],
    "left": lambda row: row["left"] if row["left"] is not None else -1.0,
    "fence": lambda row: row["fence"] or 0,
}


def number(params: Params, name: str, default: int, most: int, least: int = 1) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not least <= int(text) <= most:
        raise bad(f"{name}: must be a number from {least} to {most}")
    return int(text)


def choice(params: Params, name: str, allowed: tuple[str, ...], default: str | None) -> str | None:
    text = params.get(name, default)
    if text is not None and text not in allowed:
        raise bad(f"{name}: must be one of {', '.join(allowed)}")
    return text


def needed_name(params: Params, principal: Principal) -> str:
    name = params.get("name", "")
    check_name(name)
    principal.need_name(name)
    return name


# Lists


async def locks(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    limit = number(params, "limit", 50, MOST_LISTED)
    sort = choice(params, "sort", tuple(SORTS), "name") or "name"
    down = choice(params, "order", ("asc", "desc"), "asc" if sort == "name" else "desc") == "desc"
    kind = choice(params, "kind", ("exclusive", "shared", "permits"), None)
    state = choice(params, "state", ("held", "waiting"), None)
    after = _cursor(params.get("cursor"))
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
        "next": _cursor_text(key(last), last["name"]) if last is not None else None,
        "total": total,
        "age": round(max(0.0, service.now - service.survey.at), 3),
    }


def _mentions(row: dict[str, Any], text: str) -> bool:
    return any(text in (word or "").casefold() for each in row["holders"] for word in (each.host, each.label))


def _cursor_text(value: Any, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([value, name]).encode()).decode().rstrip("=")


def _cursor(text: str | None) -> tuple[Any, str] | None:
    if text is None:
        return None
    try:
        value, name = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if (
            not isinstance(name, str)
            or not isinstance(value, str | int | float)
            or (isinstance(value, float) and not math.isfinite(value))
        ):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise bad("cursor: is not one that a list gave") from None
    return value, name


async def sessions(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for session in await _all_sessions(service):
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
    found.sort(key=lambda each: (each["opened"] or 0, each["id"]), reverse=True)
    return {"sessions": found[:MOST_LISTED], "total": len(found)}


async def _all_sessions(service: Service) -> list[Any]:
    ids: list[bytes] = []
    cursor = b"0"
    while True:
        cursor, some = await service.ask(service.sessions.scan_step(cursor))
        ids += some
        if cursor == b"0":
            break
    ids = list(dict.fromkeys(ids))
    found: list[Any] = []
    for at in range(0, len(ids), 100):
        steps = [step for each in ids[at : at + 100] for step in service.sessions.look_steps(each)]
        answers = await service.ask_all(steps)
        for session, left in zip(answers[::2], answers[1::2], strict=True):
            if session is not None and not isinstance(session, Exception) and isinstance(left, int):
                found.append(session._replace(left=max(0, left) / 1000))
    return found


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
    info, events, minutes = await asyncio.gather(
        service.locks.inspect(name), service.history.last(READ_BACK), service.history.minutes(60)
    )
    now = service.now
    owned = await _sessions_in(service, [info], 50)
    template = template_of(name)
    hold = summary(minutes.values(), "h", template)
    happened = [{"id": id_, **event} for id_, event in events if event.get("name") == name]
    happened.sort(key=lambda event: float(event["at"]), reverse=True)  # processes write a little later than it happens
    kind = info.kind or (info.waiters[0].kind if info.waiters else None)
    return {
        "name": name,
        "kind": kind.value if kind else None,
        "fence": info.fence,
        "holders": [holder_full(each, now, owned.get(owner_id(each.owner)), principal) for each in info.holders],
        "waiters": [waiter_full(each, now, owned.get(owner_id(each.owner))) for each in info.waiters],
        "waiting": info.waiting,
        "history": happened[:HISTORY],
        "wait": summary(minutes.values(), "w", template),
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


async def _sessions_in(service: Service, infos: Iterable[LockInfo], most: int) -> dict[bytes, str]:
    """Which clients of these locks' owners are sessions."""
    owners: list[str] = []
    for info in infos:
        owners += [each.owner for each in info.holders]
        owners += [each.owner for each in info.waiters]
    ids = list(dict.fromkeys(map(owner_id, owners)))[:most]
    found = await service.ask_all([service.sessions.left_step(each) for each in ids])
    return {each: each.hex() for each, left in zip(ids, found, strict=True) if isinstance(left, int) and left >= 0}


def leader_of(info: LockInfo) -> dict[str, Any]:
    """The exclusive holder. A fence of 0: there is none."""
    if len(info.holders) != 1 or info.holders[0].kind.value != "exclusive":
        return {"leader": None, "fence": 0}
    holder = info.holders[0]
    return {"leader": {**holder_dict(holder), "fence": holder.fence}, "fence": holder.fence or 0}


async def leader(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    """Returns when the leader is not the one whose fence is `after`, or when the wait ends."""
    name = needed_name(params, principal)
    after = number(params, "after", -1, 2**53 - 1, 0)
    wait = seconds(float(params["wait"]) if _is_number(params.get("wait")) else params.get("wait", 0), "wait")
    if wait > MOST_WAIT:
        raise bad(f"wait: at most {MOST_WAIT:.0f} s")
    end = service.clock + wait
    while True:
        found = leader_of(await service.locks.inspect(name))
        left = end - service.clock
        if found["fence"] != after or left <= 0 or service.draining:
            return {"name": name, **found}
        await asyncio.sleep(min(LOOK_EVERY, left))


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and math.isfinite(float(text))
    except ValueError:
        return False


# The whole


async def stats(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    minutes = await service.history.minutes(number(params, "minutes", 60, 180))
    await service.survey.fresh()
    rows = service.survey.seen_by(principal)
    recent = list(minutes.values())
    templates = {field.split(":", 2)[2] for counts in recent for field in counts if field[:2] in ("w:", "h:")}
    seen = sorted(each for each in templates if principal.sees(each))
    contended: list[dict[str, Any]] = [
        {"template": each, "wait": summary(recent, "w", each), "hold": summary(recent, "h", each)} for each in seen
    ]
    contended.sort(key=lambda each: each["wait"]["p95"] or 0, reverse=True)
    per_minute: list[dict[str, Any]] = [
        {
            "minute": minute * 60,
            **{word: counts.get(word, 0) for word in ("granted", "released", "lost", "timed_out", "forced", "expired")},
            **percentiles(counts, "w"),
        }
        for minute, counts in minutes.items()
    ]
    granted = sum(counts.get("granted", 0) for counts in recent[-2:])
    span = service.now % 60 + (60 if len(recent) > 1 else 0)
    whole = not principal.prefixes  # counts are of all names
    return {
        **service.survey.totals(principal),
        "locks": len(rows),
        "lost": sum(each["lost"] + each["expired"] for each in per_minute) if whole else None,
        "rate": round(granted / max(1.0, span), 3) if whole else None,
        "minutes": per_minute if whole else [],
        "templates": contended[:50],
        "sampled": True,
        "at": round(service.now, 3),
    }


async def graph(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    await service.survey.fresh()
    infos = [info for info in service.survey.infos if principal.sees(info.name)]
    return graph_of(infos, await _sessions_in(service, (info for info in infos if info.waiting), 1000))


async def nodes(service: Service, principal: Principal, params: Params) -> dict[str, Any]:
    # Clients of the service choose their ttl themselves: none is too long for it.
    shown = [each.as_dict() for each in await service.locks.doctor() if each.id != "PTTL_ABOVE_TTL"]
    up = not any(each.get("severity") == "error" for each in shown)
    where = service.locks.place.display if principal.may("admin") else "the lock server"
    if not principal.may("admin"):
        shown = [{word: each[word] for word in ("id", "severity", "means", "change")} for each in shown]
    return {"nodes": [{"name": where, "up": up, "findings": shown}], "namespace": service.locks.settings.namespace}


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
    "graph": (graph, "read", (), False),
    "stats": (stats, "read", ("minutes",), False),
    "nodes": (nodes, "read", (), False),
    "sessions": (sessions, "read", (), False),
    "audit": (audit, "admin", ("limit", "cursor", "name"), False),
    "me": (me, "read", (), False),
}
"""By path below /v1/: the function, the role, the parameters, and whether it may wait."""
