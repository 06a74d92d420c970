"""Decides which callers are admitted: by token, by the page's cookie, from this machine if there are no tokens, or as
the mounting program says."""

import hashlib
import hmac
import inspect
import json
import os
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.server.principal import ROLES, Principal
from holdtight.server.problems import Problem
from holdtight.server.tokens import Token, TokenFile

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["Gate", "Mounted", "Standalone", "is_loopback_name"]

LOGIN_SECONDS = 12 * 3600
WRONG_A_MINUTE = 10
MOST_ADDRESSES = 10_000

Headers = dict[bytes, bytes]


def is_loopback_name(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(headers: Headers) -> str:
    """The host's name without its port."""
    host = headers.get(b"host", b"").decode("latin-1").strip()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def unauthenticated(detail: str = "give a token: Authorization: Bearer ht_...") -> Problem:
    return Problem(401, "UNAUTHENTICATED", detail, headers=(("www-authenticate", "Bearer"),))


def check_post(scope: Any, headers: Headers) -> None:
    """A page of another origin cannot send what passes here without asking first, and it is never allowed to."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.split(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be application/json")
    site = headers.get(b"sec-fetch-site")
    if site is not None and site not in (b"same-origin", b"none"):
        raise Problem(403, "CSRF", "requests of other sites are refused")
    origin = headers.get(b"origin")
    if origin is not None:
        own = f"{scope.get('scheme', 'http')}://".encode() + headers.get(b"host", b"")
        if origin != own:
            raise Problem(403, "CSRF", "requests of other origins are refused")


class Gate(Protocol):
    has_login: bool

    def check_host(self, headers: Headers) -> None: ...

    def known(self, scope: Any, headers: Headers) -> Principal | None:
        """A caller that needs no further question."""

    async def admit(self, service: "Service", scope: Any, headers: Headers, receive: Any) -> Principal:
        """Raises Problem. A long request is checked again while it runs."""
        ...


class Mounted:
    """The program that has mounted the service decides."""

    has_login = False

    def __init__(self, authorize: Callable[[Any], Any]) -> None:
        if not callable(authorize):
            raise TypeError(f"authorize must be callable, not {type(authorize).__name__}")
        self._authorize = authorize

    def check_host(self, headers: Headers) -> None: ...

    def known(self, scope: Any, headers: Headers) -> Principal | None:
        return None

    async def admit(self, service: "Service", scope: Any, headers: Headers, receive: Any) -> Principal:
        from starlette.requests import Request

        found = self._authorize(Request(scope, receive))
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            raise unauthenticated("not authorized")
        if not isinstance(found, Principal) or found.role not in ROLES:
            raise TypeError("authorize must return a Principal whose role is read, lock or admin, or None")
        return await service.with_secret(found._replace(address=found.address or _address(scope)))


class Standalone:
    """Admits tokens. Without any tokens it admits callers on this machine: they may look, and with `everything` they
    may do all."""

    def __init__(self, tokens: TokenFile | None, *, everything: bool = False, secure: bool = False) -> None:
        self.tokens = tokens
        self.everything = everything
        self.secure = secure
        self.has_login = tokens is not None
        self._wrong: dict[str, deque[float]] = {}

    def check_host(self, headers: Headers) -> None:
        if self.tokens is None and not is_loopback_name(host_of(headers)):
            raise Problem(421, "MISDIRECTED", "without tokens the service answers to a loopback name only")

    def known(self, scope: Any, headers: Headers) -> Principal | None:
        if self.tokens is None:
            return None
        kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        token = self.tokens.find(text.strip()) if kind.lower() == "bearer" else None
        return None if token is None else _principal(token, _address(scope))

    async def admit(self, service: "Service", scope: Any, headers: Headers, receive: Any) -> Principal:
        address = _address(scope)
        if self.tokens is None:
            local = Principal("local", "admin" if self.everything else "read", address=address)
            return await service.with_secret(local)
        if b"authorization" in headers:
            known = self.known(scope, headers)
            if known is None:
                raise self.wrong(address)
            return known
        cookie = self._cookie(scope, headers)
        if cookie is None:
            raise unauthenticated()
        return await self._logged_in(service, scope, headers, cookie, address)

    def refusal(self, principal: Principal) -> Problem | None:
        """A caller without a token may only look; the error says how to log in."""
        if self.tokens is None and not self.everything:
            return unauthenticated("start the service with --tokens to take locks, or with --open on your own machine")
        return None

    def wrong(self, address: str | None) -> Problem:
        """Counts the wrong tokens from an address. A right token always passes, so nobody can use the limit to lock
        another caller out."""
        now = time.monotonic()
        key = address or ""
        if len(self._wrong) >= MOST_ADDRESSES:
            self._wrong = {each: when for each, when in self._wrong.items() if when and when[-1] > now - 60}
            while len(self._wrong) >= MOST_ADDRESSES:
                del self._wrong[next(iter(self._wrong))]
        times = self._wrong.setdefault(key, deque(maxlen=WRONG_A_MINUTE))
        if len(times) == WRONG_A_MINUTE and times[0] > now - 60:
            return Problem(
                429, "TOO_MANY_REQUESTS", "too many wrong tokens: wait a minute", headers=(("retry-after", "60"),)
            )
        times.append(now)
        return unauthenticated("this token is not known, or was revoked")

    # The page's login

    def is_a_stranger(self, scope: Any, headers: Headers) -> bool:
        """Without a cookie: such a caller is shown the login."""
        return self.tokens is not None and self._cookie(scope, headers) is None

    def _name(self, scope: Any) -> str:
        return "__Host-holdtight" if self._is_secure(scope) else "holdtight"

    def _is_secure(self, scope: Any) -> bool:
        return self.secure or scope.get("scheme") == "https"

    def _cookie(self, scope: Any, headers: Headers) -> str | None:
        """Under TLS only the name that a neighbour in the domain cannot set."""
        try:
            found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(self._name(scope))
        except CookieError:
            return None
        return found.value if found is not None else None

    async def login(self, service: "Service", scope: Any, token: str) -> tuple[tuple[str, str], ...]:
        """Headers that set the cookie."""
        known = self.tokens.find(token) if self.tokens is not None else None
        if known is None:
            raise self.wrong(_address(scope))
        cookie = os.urandom(32).hex()
        value = json.dumps({"hash": known.hash}).encode()
        await service.ask(service.sessions.login_step(cookie, value, LOGIN_SECONDS))
        secure = "; Secure" if self._is_secure(scope) else ""
        text = f"{self._name(scope)}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LOGIN_SECONDS}{secure}"
        return (("set-cookie", text),)

    async def logout(self, service: "Service", scope: Any, headers: Headers) -> tuple[tuple[str, str], ...]:
        cookie = self._cookie(scope, headers)
        if cookie is not None:
            await service.ask(service.sessions.logout_step(cookie))
        secure = "; Secure" if self._is_secure(scope) else ""
        text = f"{self._name(scope)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"
        return (("set-cookie", text),)

    async def _logged_in(
        self, service: "Service", scope: Any, headers: Headers, cookie: str, address: str | None
    ) -> Principal:
        assert self.tokens is not None
        raw = await service.ask(service.sessions.logged_in_step(cookie))
        try:
            token = self.tokens.tokens.get(json.loads(raw)["hash"]) if raw else None
        except (ValueError, KeyError, TypeError):
            token = None
        if token is None:
            raise unauthenticated("sign in again")
        csrf = hashlib.sha256(b"csrf\0" + cookie.encode()).hexdigest()[:32]
        if scope["method"] == "POST" and not hmac.compare_digest(headers.get(b"x-csrf-token", b""), csrf.encode()):
            raise Problem(403, "CSRF", "X-CSRF-Token is missing or wrong: /v1/me gives it")
        return _principal(token, address)._replace(csrf=csrf)


def _address(scope: Any) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


@lru_cache(1024)
def _principal(token: Token, address: str | None) -> Principal:
    return Principal(token.name, token.role, token.prefixes, bytes.fromhex(token.hash), address)
