"""Events as they happen: Server-Sent Events, from the history and from the list of locks."""

import asyncio
import re
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from holdtight.errors import LockError
from holdtight.server.gate import Gate
from holdtight.server.params import needed_name
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem, bad
from holdtight.server.service import MOST_STREAMS, Service, shutting_down

if TYPE_CHECKING:
    from holdtight.server.http import Call

__all__ = ["KINDS", "stream"]

KINDS = (
    *("granted", "released", "lost", "expired", "timed_out", "deadlock", "forced", "detached", "adopted", "downgraded"),
    *("session_opened", "session_closed", "tick", "changed", "skipped"),
)
LOOK_EVERY = 0.5
COMMENT_EVERY = 15.0
EVENTS_IN_A_CHUNK = 500
_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,10}")
_encode = msgspec.json.Encoder().encode


async def stream(call: "Call", service: Service, gate: Gate, principal: Principal, params: dict[str, str]) -> None:
    name = needed_name(params, principal) if "name" in params else None
    prefix = params.get("prefix", "")
    only = set(params["only"].split(",")) if "only" in params else None
    if only is not None and not only <= set(KINDS):
        raise bad(f"only: must be some of {','.join(KINDS)}")
    last = call.headers.get(b"last-event-id", b"").decode("latin-1")
    if last and not _ID.fullmatch(last):
        raise Problem(400, "BAD_REQUEST", "Last-Event-ID: is not one of this stream")
    if service.draining:
        raise shutting_down()
    if call.method == "HEAD":
        await _head(call)
        await call.send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    if service.streams[principal.name] >= MOST_STREAMS:
        raise Problem(429, "LIMIT_REACHED", f"a token may have {MOST_STREAMS} streams open")
    service.streams[principal.name] += 1
    try:
        if not last:
            newest = await service.history.last(1)
            last = newest[0][0] if newest else "0-0"
        await _Stream(call, service, gate, principal, name, prefix, only, last).run()
    finally:
        service.streams[principal.name] -= 1
        if not service.streams[principal.name]:
            del service.streams[principal.name]


async def _head(call: "Call") -> None:
    call.sent = 200
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", call.id.encode()),
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


class _Stream:
    def __init__(
        self,
        call: "Call",
        service: Service,
        gate: Gate,
        principal: Principal,
        name: str | None,
        prefix: str,
        only: set[str] | None,
        last: str,
    ) -> None:
        self.call = call
        self.service = service
        self.gate = gate
        self.principal = principal
        self.name = name
        self.prefix = prefix
        self.only = only
        self.last = last
        self.rev = 0
        self.state: int | None = None
        self.leader: int | None = None
        self.behind = False
        """Whether there is more to tell at once."""

    async def run(self) -> None:
        await _head(self.call)
        service = self.service
        hung_up = asyncio.create_task(self._until_hung_up())
        ended = asyncio.create_task(service.history.ended.wait())
        try:
            with ExitStack() as stack:
                look = None
                if self.name is not None and self._tells("changed"):
                    look = stack.enter_context(service.leaders.watching(self.name))
                await self._write(b"retry: 1000\n: holdtight\n\n")
                spoken = time.monotonic()
                while not hung_up.done() and not ended.done():
                    out: list[bytes] = []
                    try:
                        await self._look(out, look)
                    except LockError:
                        out.append(b": the lock server does not answer\n\n")
                    if not out and time.monotonic() - spoken >= COMMENT_EVERY:
                        out.append(b": still here\n\n")
                    if out:
                        if not await self._is_admitted():
                            break
                        await self._write(b"".join(out))
                        spoken = time.monotonic()
                    if not self.behind:
                        await asyncio.wait([hung_up, ended], timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            if not hung_up.done():
                await self.call.send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            hung_up.cancel()
            ended.cancel()

    async def _write(self, data: bytes) -> None:
        await self.call.send({"type": "http.response.body", "body": data, "more_body": True})

    async def _until_hung_up(self) -> None:
        while (await self.call.receive())["type"] != "http.disconnect":
            pass

    async def _is_admitted(self) -> bool:
        """Checked before each event: a revoked token or an ended login gets no more events."""
        call = self.call
        try:
            again = await self.gate.admit(self.service, call.scope, call.headers, call.receive)
            again.need("read")
        except Problem:
            return False
        except LockError:
            return True  # only a login is asked for there: its stream says no more than that nothing answers
        # A scope that has changed: the next stream has the new one.
        return again.prefixes == self.principal.prefixes and again.role == self.principal.role

    def _tells(self, kind: str) -> bool:
        return self.only is None or kind in self.only

    async def _look(self, out: list[bytes], look: Any) -> None:
        service = self.service
        events, skipped = await service.history.tail.since(self.last, EVENTS_IN_A_CHUNK)
        if skipped:
            out.append(_event("skipped", {"after": self.last, "at": round(service.now, 3)}))
        self.behind = len(events) == EVENTS_IN_A_CHUNK
        for id_, event in events:
            self.last = id_
            if self._wanted(event):
                out.append(_event(event["kind"], event, id_))
        if look is not None:
            found = await look.get()
            if found["fence"] != self.leader:
                self.leader = found["fence"]
                out.append(_event("changed", {"name": self.name, "at": round(service.now, 3), **found}))
        if self._tells("tick"):
            await service.survey.fresh()
            view = service.survey.view(self.principal, self.prefix)
            if view.state != self.state:
                self.state = view.state
                self.rev += 1
                told = {"rev": self.rev, "at": round(service.now, 3), "held": view.held, "waiting": view.waiting}
                out.append(_event("tick", told))

    def _wanted(self, event: dict[str, Any]) -> bool:
        kind, about, principal = event.get("kind"), event.get("name"), self.principal
        if kind is None or not self._tells(kind):
            return False
        if about is None:
            if self.name is not None or self.prefix:
                return False
            return event.get("by") == principal.name or (principal.may("admin") and principal.whole)
        return (self.name is None or about == self.name) and about.startswith(self.prefix) and principal.sees(about)


def _event(kind: str, data: dict[str, Any], id_: str | None = None) -> bytes:
    head = f"id: {id_}\n".encode() if id_ else b""
    return head + b"event: " + kind.encode() + b"\ndata: " + _encode(data) + b"\n\n"
