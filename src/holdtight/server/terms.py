"""How long a lock is held: by a session, or for a ttl."""

from functools import partial

from holdtight.base.clock import ttl_seconds
from holdtight.server import bodies
from holdtight.server.principal import Principal
from holdtight.server.problems import Problem, bad
from holdtight.server.service import MOST_LEASES, Service, Upkeep
from holdtight.server.texts import SessionText
from holdtight.stores.boundary import SessionEntry

__all__ = ["Terms", "gone"]


def gone() -> Problem:
    return Problem(410, "SESSION_GONE", "no such session: it was closed, its time ran out, or it is of another token")


class Terms:
    session: SessionText | None = None
    proof = ""
    ttl = 0.0

    def __init__(self, principal: Principal, session: str | None, ttl: bodies.Duration | None) -> None:
        if (session is None) == (ttl is None):
            raise bad("session: give a session, or a ttl for a lease of its own")
        if session is not None:
            self.session = SessionText.read(session)
            self.proof = self.session.proof(principal.name)
            self.id, self.secret = self.session
        else:
            self.id, self.secret = principal.owning()
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
        """Strikes a place in line off. A grant that the same owner got elsewhere stays."""
        if self.session is not None:
            await service.ask(service.sessions.strike_step(self.session.id, owner))

    def upkeep(self, service: Service, entry: SessionEntry) -> Upkeep:
        """What an open poll keeps: the record of its session, and none of its leases."""
        assert self.session is not None
        return Upkeep(partial(service.sessions.enrol_step, self.session.id, self.proof, entry), self.ttl / 3, gone())
