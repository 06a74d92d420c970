"""Requests for owners that come from outside, as those of the lock service do.

The same owner may be at work on several machines at once. So a request says which grant it means, by the fence; or by
which connection the owner waits, by the inbox. `Acting` makes them from a prepared claim.
"""

from typing import TYPE_CHECKING

from holdtight.base.plan import Step
from holdtight.base.values import Owner
from holdtight.stores.redis import keys, script
from holdtight.stores.redis.replies import read_release
from holdtight.stores.redis.resp import bulk
from holdtight.stores.times import KEPT_MS, LONGEST_PATIENCE, TAIL_MS, marker_for

if TYPE_CHECKING:
    from holdtight.stores.redis.store import Prepared, Store

__all__ = ["Acting"]


class Acting:
    def __init__(self, store: "Store") -> None:
        self._store = store

    def leave_step(self, prepared: "Prepared", owner: Owner) -> Step:
        """Leaves the line, or passes on a hand-over that was not confirmed, but only while the owner waits on the
        connection that carries this request. The driver adds the inbox, which is the last argument."""
        start = keys.pack(script.WITHDRAW.longest_start, prepared.main)
        return Step(start + bulk(owner) + bulk(0), b"", read_release, patience=1.0, undo=True)

    def touch_request(self, prepared: "Prepared", owner: Owner, inbox: bytes) -> bytes:
        """The heartbeat of a waiter that keeps its place for HEARTBEAT_MS after its sender has died."""
        return keys.pack(script.TOUCH.longest_start, prepared.main) + bulk(owner) + bulk(inbox) + bulk(KEPT_MS)

    def quit_step(self, prepared: "Prepared", owner: Owner) -> Step:
        """The same, whichever connection the owner waits on."""
        start = keys.pack(script.WITHDRAW.longest_start, prepared.main)
        return Step(start + bulk(owner) + bulk(0) + bulk("*"), None, read_release, patience=LONGEST_PATIENCE)

    def release_step(self, prepared: "Prepared", owner: Owner, fence: int) -> Step:
        start = keys.pack(script.RELEASE.longest_start, prepared.main)
        return Step(start + bulk(owner), bulk(b"%016d" % fence), read_release, patience=LONGEST_PATIENCE)

    def renew_step(self, prepared: "Prepared", owner: Owner, fence: int, *, now: float, ttl: float) -> Step:
        """Extends the time left, and never shortens it. Gives a Verdict or a LossReason."""
        names = prepared.keys
        patience = min(self._store.drift.valid(ttl), LONGEST_PATIENCE)
        head = script.RENEW.longest_start + bulk(names.main) + bulk(names.waiters) + bulk(names.holders) + bulk(owner)
        terms = self._store.renewal_terms(now, ttl, patience)
        return Step(head + terms + bulk(b"") + bulk(b"%016d" % fence), None, prepared.read_renewal, patience=patience)

    def downgrade_step(self, prepared: "Prepared", owner: Owner, fence: int, *, now: float) -> Step:
        """For a claim to read, as `Prepared.downgrade_step`."""
        limit = self._store.not_after(now, prepared.patience)
        ttl_ms = prepared.ttl_ms
        return Step(
            keys.pack(script.DOWNGRADE.longest_start, prepared.main)
            + bulk(owner)
            + bulk(ttl_ms)
            + bulk(ttl_ms + TAIL_MS)
            + bulk(prepared.claim.label or "")
            + bulk(limit)
            + bulk(b"")
            + bulk(b"%016d" % fence),
            None,
            self._store.read_attempt,
            patience=prepared.patience,
            limit=marker_for(limit),
        )
