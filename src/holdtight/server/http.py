"""The service as an ASGI application: a dictionary of paths, strict bodies, and problems as JSON.

Pure ASGI: a request that waits must notice at once that its client has hung up.
"""

import asyncio
import itertools
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec

from holdtight.base import clock, names
from holdtight.clients import outside
from holdtight.errors import LockError
from holdtight.grants import lease
from holdtight.server import bodies, looks, pages
from holdtight.server.gate import Gate, Headers, Standalone, check_post
from holdtight.server.metrics import Metrics
from holdtight.server.openapi import document
from holdtight.server.problems import Problem, problem_of
from holdtight.server.protocol import answered_in_one_write, whole_body
from holdtight.server.service import Service, shutting_down
from holdtight.server.stream import stream
from holdtight.server.trouble import Trouble
from holdtight.server.verbs import VERBS

__all__ = ["App", "Call"]

MOST_BODY = 16 * 1024
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_HEAD = (
    b"content-type: %b\r\ncontent-length: %d\r\ncache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\nx-request-id: %b\r\n"
)
_encode = msgspec.json.Encoder().encode
_DECODERS = {path: msgspec.json.Decoder(body) for path, (body, _, _) in VERBS.items()}
_LOGIN = msgspec.json.Decoder(bodies.Login)
_log = logging.getLogger("holdtight.server")
_RUN = os.urandom(4).hex()
_numbers = itertools.count(int.from_bytes(os.urandom(3)))

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def _fresh_id() -> str:
    """Names a request in the log, and tells apart those of other instances."""
    return f"{_RUN}{next(_numbers) & 0xFFFFFFFF:08x}"


class Call:
    """One request."""

    __slots__ = ("headers", "id", "method", "path", "receive", "route", "scope", "send", "sent", "started")

    def __init__(self, scope: Any, receive: Receive, send: Send, started: float) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.started = started
        self.headers: Headers = dict(scope["headers"])
        self.method: str = scope["method"]
        path, root = scope["path"], scope.get("root_path", "")
        self.path: str = path[len(root) :] if root and path.startswith(root) else path
        self.route = "other"
        given = self.headers.get(b"x-request-id")
        asked = given is not None and _REQUEST_ID.fullmatch(given.decode("latin-1"))
        self.id = asked[0] if asked else _fresh_id()
        self.sent = 0

    async def answer(
        self,
        status: int,
        body: bytes,
        kind: bytes = b"application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.sent = status
        if not headers and status != 204 and self.method != "HEAD":
            head = _HEAD % (kind, len(body), self.id.encode())
            if answered_in_one_write(self.send, status, head, body):
                return
        found = [
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"x-request-id", self.id.encode()),
        ]
        found += [(name.encode(), value.encode("latin-1")) for name, value in headers]
        if status == 204:
            found = found[2:]
        await self.send({"type": "http.response.start", "status": status, "headers": found})
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def body(self) -> bytes:
        length = self.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BODY:
            raise _too_large()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise _HungUp
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > MOST_BODY:
                raise _too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def query(self, allowed: tuple[str, ...]) -> dict[str, str]:
        try:
            text = self.scope.get("query_string", b"").decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
        except ValueError:
            raise Problem(400, "BAD_REQUEST", "the query is not readable") from None
        found = dict(pairs)
        for name in found:
            if name not in allowed:
                raise Problem(400, "BAD_REQUEST", f"{name[:50]}: no such parameter here")
        if len(found) != len(pairs):
            raise Problem(400, "BAD_REQUEST", "a parameter is given twice")
        return found


class _HungUp(Exception):
    pass


def _too_large() -> Problem:
    return Problem(413, "TOO_LARGE", f"a body has at most {MOST_BODY} bytes")


class App:
    def __init__(self, service: Service, gate: Gate) -> None:
        self.service = service
        self.gate = gate
        self.metrics = Metrics(service)
        self._trouble = Trouble()
        self.log: Callable[[Call, float], None] | None = None
        """Gets every request, and how many seconds it took, if there is one."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await _lifespan(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        if kind != "http":
            return
        call = Call(scope, receive, send, self.service.clock)
        begun = time.perf_counter()
        try:
            try:
                await self._answering(call)
            except Problem as problem:
                await self._problem(call, problem)
            except LockError as error:
                if call.sent == 0:
                    meant = problem_of(error)
                    meant.detail = meant.detail.replace(self.service.locks.place.display, "the lock server")
                    if meant.status >= 500:
                        self._trouble.note(call.id, error)
                        self.service.doubt_secret()
                    await self._problem(call, meant)
            except (ValueError, TypeError) as error:
                if error.__traceback__ is None or not _is_about_input(error):
                    raise
                await self._problem(call, Problem(400, "BAD_REQUEST", str(error)))
        except _HungUp:
            pass
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and self.service.locks.closed:
                await self._problem(call, shutting_down())
            else:
                _log.exception("request %s failed", call.id)
                detail = f"the service has a fault; its log has the request {call.id}"
                await self._problem(call, Problem(500, "INTERNAL", detail))
        finally:
            took = time.perf_counter() - begun
            self.metrics.count(call.route, call.sent, took)
            if self.log is not None:
                self.log(call, took)

    async def _problem(self, call: Call, problem: Problem) -> None:
        if call.sent == 0:
            body = _encode(problem.as_dict())
            await call.answer(problem.status, body, b"application/problem+json", problem.headers)

    def _answering(self, call: Call) -> Coroutine[Any, Any, None]:
        """Finds who answers."""
        path = call.path
        if path.startswith("/v1/"):
            word = path[4:]
            verb = VERBS.get(word)
            if verb is not None:
                call.route = path
                if call.method != "POST":
                    raise _not_allowed("POST")
                self.gate.check_host(call.headers)
                return self._verb(call, word, verb)
            look = looks.LOOKS.get(word)
            if look is not None or word in ("events", "openapi.json"):
                call.route = path
                if call.method not in ("GET", "HEAD"):
                    raise _not_allowed("GET, HEAD")
                self.gate.check_host(call.headers)
                return self._look(call, word, look)
            raise Problem(404, "NOT_FOUND", "no such path")
        return self._other(call)

    async def _verb(self, call: Call, word: str, verb: Any) -> None:
        service = self.service
        check_post(call.scope, call.headers)
        principal = self.gate.known(call.scope, call.headers)
        if principal is None:
            principal = await self.gate.admit(service, call.scope, call.headers, call.receive)
        if isinstance(self.gate, Standalone) and (refusal := self.gate.refusal(principal)) is not None:
            raise refusal
        _, role, function = verb
        principal.need(role)
        body = await self._decoded(call, _DECODERS[word])
        if service.draining:
            raise shutting_down()
        if word == "acquire" and body.wait:
            status, answer = await self._waiting(call, function(service, principal, body, call.started))
        else:
            status, answer = await function(service, principal, body, call.started)
        await call.answer(status, _encode(answer))

    async def _decoded(self, call: Call, decoder: Any) -> Any:
        raw = whole_body(call.send)
        if raw is None:
            raw = await call.body()
        elif len(raw) > MOST_BODY:
            raise _too_large()
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise Problem(400, "BAD_REQUEST", _member(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, "BAD_REQUEST", f"the body is not JSON: {error}") from None

    async def _waiting(self, call: Call, work: Any) -> Any:
        """Runs a verb that may wait; ends it when the client hangs up."""
        task = asyncio.current_task()
        assert task is not None
        hung_up = False

        async def listen() -> None:
            nonlocal hung_up
            while (await call.receive())["type"] != "http.disconnect":
                pass
            hung_up = True
            task.cancel()

        listener = asyncio.create_task(listen())
        try:
            return await work
        except asyncio.CancelledError:
            if not hung_up:
                raise
            task.uncancel()
            raise _HungUp from None
        finally:
            listener.cancel()

    async def _look(self, call: Call, word: str, look: Any) -> None:
        service = self.service
        if word == "openapi.json":
            await call.answer(200, document())
            return
        principal = await self.gate.admit(service, call.scope, call.headers, call.receive)
        principal.need("read")
        if word == "events":
            params = call.query(("prefix", "name", "only"))
            await stream(call, service, self.gate, principal, params)
            return
        function, role, allowed, waits = look
        principal.need(role)
        params = call.query(allowed)
        work = function(service, principal, params)
        answer = await (self._waiting(call, work) if waits and "wait" in params else work)
        await call.answer(200, _encode(answer))

    async def _other(self, call: Call) -> None:
        path, service = call.path, self.service
        if path in ("/healthz", "/readyz", "/metrics"):
            call.route = path
            if call.method not in ("GET", "HEAD"):
                raise _not_allowed("GET, HEAD")
            if path == "/healthz":
                await call.answer(200, b'{"status":"ok"}')
            elif path == "/readyz":
                await self._ready(call)
            else:
                self.gate.check_host(call.headers)
                principal = await self.gate.admit(service, call.scope, call.headers, call.receive)
                principal.need("read")
                principal.need_whole("metrics are")
                await call.answer(200, self.metrics.text(), b"text/plain; version=0.0.4; charset=utf-8")
            return
        self.gate.check_host(call.headers)
        if path in ("/login", "/logout") and call.method == "POST" and isinstance(self.gate, Standalone):
            call.route = path
            check_post(call.scope, call.headers)
            if path == "/login":
                body: bodies.Login = await self._decoded(call, _LOGIN)
                await call.answer(204, b"", headers=await self.gate.login(service, call.scope, body.token))
            else:
                await self.gate.admit(service, call.scope, call.headers, call.receive)
                await call.answer(204, b"", headers=await self.gate.logout(service, call.scope, call.headers))
            return
        page = pages.find(path, login=self.gate.has_login)
        if page is None:
            raise Problem(404, "NOT_FOUND", "no such path")
        call.route = page.route
        if call.method not in ("GET", "HEAD"):
            raise _not_allowed("GET, HEAD, POST" if path in ("/login", "/logout") else "GET, HEAD")
        stranger = isinstance(self.gate, Standalone) and self.gate.is_a_stranger(call.scope, call.headers)
        if page.route == "page" and path != "/login" and stranger:
            await call.answer(303, b"", headers=(("location", f"login?next={_way_back(path, call.scope)}"),))
            return
        await call.answer(page.status, page.body, page.kind, page.headers)

    async def _ready(self, call: Call) -> None:
        try:
            if self.service.draining:
                raise shutting_down()
            async with asyncio.timeout(2):
                await self.service.ask(self.service.sessions.logged_in_step("ready"))
        except (LockError, TimeoutError, Problem):
            await call.answer(503, b'{"status":"not ready"}', headers=(("retry-after", "1"),))
            return
        await call.answer(200, b'{"status":"ready"}')


def _not_allowed(allow: str) -> Problem:
    return Problem(405, "METHOD_NOT_ALLOWED", f"this path takes {allow}", headers=(("allow", allow),))


def _way_back(path: str, scope: Any) -> str:
    """Names the page, for `static/login.js`, which takes no slash: it could lead to another site."""
    query = scope.get("query_string", b"").decode("latin-1").replace("/", "%2F").replace("\\", "%5C")
    return quote(path[1:] + ("?" + query if query else ""))


def _member(text: str) -> str:
    """msgspec's words, with the member in front: "ttl: Expected `str`, got `null`"."""
    said, _, path = text.partition(" - at `$.")
    if path:
        return f"{path.rstrip('`')}: {said}"
    return said


def _is_about_input(error: BaseException) -> bool:
    """Whether one of the checks of arguments raised it: those name the argument."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return name in _CHECKS


_CHECKS = {each.__name__ for each in (clock, names, outside, lease)}


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return
