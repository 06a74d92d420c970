"""Claims on several names of one store, attempted in one step. See core/multi.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base.plan import Step
from holdtight.base.values import Grant, Kind, Late, Owner
from holdtight.stores.redis import script
from holdtight.stores.times import TAIL_MS

if TYPE_CHECKING:
    from holdtight.stores.redis.store import Prepared

__all__ = ["PreparedMulti"]

_MODES = {Kind.EXCLUSIVE: "x", Kind.SHARED: "r", Kind.PERMITS: "p"}


class PreparedMulti:
    def __init__(self, parts: "list[Prepared]") -> None:
        self._parts = parts
        self._store = parts[0].store
        self.valid = min(part.valid for part in parts)
        self.names = [part.name for part in parts]
        self.ttl = min(part.claim.ttl for part in parts)
        self._patience = min(part.patience for part in parts)

    def attempt_step(self, owner: Owner, *, now: float) -> Step:
        keys: list[bytes] = []
        argv: list[bytes | str | int] = [self._store.not_after(now, self._patience), owner]
        for part in self._parts:
            keys += part.keys
            claim = part.claim
            argv += [_MODES[claim.kind], claim.n, claim.permits, part.ttl_ms, part.ttl_ms + TAIL_MS]
            argv.append(claim.label or "")
        return Step(
            script.MULTI.request(keys, *argv),
            None,
            self._read,
            patience=self._patience,
        )

    def _read(self, reply: Any, sent: float) -> "list[Grant] | Late | None":
        """None if one of the names is not available at once."""
        self._store.client.learn(reply[1] / 1000, sent)
        match reply:
            case [1, _, *fences]:
                return [Grant(int(fence), sent) for fence in fences]
            case [-1, _]:
                return Late()
            case _:
                return None

    def withdraw_steps(self, owner: Owner, *, marker: int) -> list[Step]:
        marked = [part.withdraw_step(owner, marker=marker) for part in self._parts]
        return [part.withdraw_step(owner, otherwise=step) for part, step in zip(self._parts, marked, strict=True)]

    def arrival_limit(self, now: float) -> int:
        return self._parts[0].arrival_limit(now, self._patience)
