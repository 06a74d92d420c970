"""The caller of a request: a name, a role, and the names that the role is for."""

import hashlib
from functools import lru_cache
from typing import NamedTuple

from holdtight.server.problems import Problem

__all__ = ["ROLES", "Principal"]

ROLES = ("read", "lock", "admin")
"""Each may do what those before it may."""


class Principal(NamedTuple):
    """What `authorize` returns. `prefixes` bound the names that this principal sees and locks; none means all names.

    `secret` gives the principal owners of its own: the same on every instance, and known to nobody else. Without one,
    the service makes one from the name.
    """

    name: str
    role: str = "read"
    prefixes: tuple[str, ...] = ()
    secret: bytes = b""
    address: str | None = None
    csrf: str | None = None

    def may(self, role: str) -> bool:
        return self.role == role or ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, name: str) -> bool:
        return not self.prefixes or name.startswith(self.prefixes)

    @property
    def whole(self) -> bool:
        """Whether all names are in scope. Only then does the principal see figures about all names together."""
        return not self.prefixes

    def sees_template(self, template: str) -> bool:
        """Whether every name of the template is in scope. Its first number sign stands for any digits."""
        return self.sees(template.partition("#")[0])

    def need_whole(self, what: str) -> None:
        if not self.whole:
            raise Problem(403, "FORBIDDEN", f"{what} of all names: the token {self.name!r} has only some")

    def need(self, role: str) -> None:
        if not self.may(role):
            raise Problem(403, "FORBIDDEN", f"this needs the role {role}; the token {self.name!r} has {self.role}")

    def need_name(self, name: str) -> None:
        if not self.sees(name):
            shown = ", ".join(self.prefixes)
            raise Problem(403, "FORBIDDEN", f"the token {self.name!r} is for names that start with {shown}", name=name)

    def owning(self) -> tuple[bytes, bytes]:
        """The id and the secret of the owners that are derived for this principal."""
        return _owning(self.secret)


@lru_cache(1024)
def _owning(secret: bytes) -> tuple[bytes, bytes]:
    id_ = hashlib.sha256(b"holdtight id\0" + secret).digest()[:8]
    return bytes((id_[0] & 0x7F,)) + id_[1:], hashlib.sha256(b"holdtight owner\0" + secret).digest()[:16]
