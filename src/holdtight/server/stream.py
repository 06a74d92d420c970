"""Events as they happen: Server-Sent Events, from the history and from the list of locks."""

import asyncio
import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdtight.errors import LockError
from holdtight.server.looks import leader_of, needed_name
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem
from holdtight.server.service import MOST_STREAMS, Service, shutting_down

if TYPE_CHECKING:
    from holdtight.server.http import Call

__all__ = ["stream"]

LOOK_EVERY = 0.5
COMMENT_EVERY = 15.0
_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,10}")
_encode = msgspec.json.Encoder().encode


async def stream(call: "Call", service: Service, principal: Principal, params: dict[str, str]) -> None:
    name = needed_name(params, principal) if "name" in params else None
    prefix = params.get("prefix", "")
    only = set(params["only"].split(",")) if "only" in params else None
    last = call.headers.get(b"last-event-id", b"").decode("latin-1")
    if last and not _ID.fullmatch(last):
        raise Problem(400, "BAD_REQUEST", "Last-Event-ID: is not one of this stream")
    if service.draining:
        raise shutting_down()
    if service.streams[principal.name] >= MOST_STREAMS:
        raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_STREAMS} streams open")
    if not last:
        newest = await service.history.last(1)
        last = newest[0][0] if newest else "0-0"
    service.streams[principal.name] += 1
    try:
        await _run(call, service, principal, name, prefix, only, last)
    finally:
        service.streams[principal.name] -= 1
        if not service.streams[principal.name]:
            del service.streams[principal.name]


async def _run(
    call: "Call",
    service: Service,
    principal: Principal,
    name: str | None,
    prefix: str,
    only: set[str] | None,
    last: str,
) -> None:
    call.sent = 200
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", call.id.encode()),
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(data: bytes) -> None:
        await call.send({"type": "http.response.body", "body": data, "more_body": True})

    async def until_hung_up() -> None:
        while (await call.receive())["type"] != "http.disconnect":
            pass

    hung_up = asyncio.create_task(until_hung_up())
    ended = asyncio.create_task(service.history.ended.wait())
    try:
        await write(b"retry: 1000\n: holdtight\n\n")
        rev, leader, quiet = -1, None, 0.0
        while not hung_up.done() and not ended.done():
            out: list[bytes] = []
            try:
                for id_, event in await service.history.since(last):
                    last = id_
                    if _wanted(event, principal, name, prefix, only):
                        out.append(_event(event["kind"], event, id_))
                if name is not None and (only is None or "changed" in only):
                    found = leader_of(await service.locks.inspect(name))
                    if found["fence"] != leader:
                        leader = found["fence"]
                        out.append(_event("changed", {"name": name, "at": round(service.now, 3), **found}))
                if only is None or "tick" in only:
                    await service.survey.fresh()
                    if service.survey.rev != rev:
                        rev = service.survey.rev
                        totals = service.survey.totals(principal, prefix)
                        out.append(_event("tick", {"rev": rev, "at": round(service.now, 3), **totals}))
            except LockError:
                out.append(b": the lock server does not answer\n\n")
            quiet = 0.0 if out else quiet + LOOK_EVERY
            if quiet >= COMMENT_EVERY:
                out.append(b": still here\n\n")
                quiet = 0.0
            if out:
                await write(b"".join(out))
            await asyncio.wait([hung_up, ended], timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
        if not hung_up.done():
            await call.send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        hung_up.cancel()
        ended.cancel()


def _wanted(event: dict[str, Any], principal: Principal, name: str | None, prefix: str, only: set[str] | None) -> bool:
    if only is not None and event.get("kind") not in only:
        return False
    about = event.get("name")
    if about is None:
        return name is None and not prefix and (principal.may("admin") or event.get("by") == principal.name)
    return (name is None or about == name) and about.startswith(prefix) and principal.sees(about)


def _event(kind: str, data: dict[str, Any], id_: str | None = None) -> bytes:
    head = f"id: {id_}\n".encode() if id_ else b""
    return head + b"event: " + kind.encode() + b"\ndata: " + _encode(data) + b"\n\n"
