"""The records that waiters publish for deadlock detection: the requests behind core/deadlock.py.

For the owner of a grant, `ns:waits:<owner>` has the name that its task or thread waits for, and the owner that waits.
Loaded when a thread or task first waits while it holds a lock, not with the package.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.plan import Step
from holdtight.base.values import OWNER_SIZE, Owner, Wait
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.stores.redis.store import Store

__all__ = ["BLOCKERS", "PUBLISHED_MS", "RETRACT", "Waits", "read_wait"]

BLOCKERS = Script("blockers")
RETRACT = Script("retract")
PUBLISHED_MS = 10_000
"""How long a record stays unless it is retracted or repeated."""


class Waits:
    """Every request uses one key, or the keys of one name: on a cluster, those share a slot."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._namespace = store.client.namespace

    def publish_step(self, holder: Owner, wait: Wait) -> Step:
        """Publishes that the owner of this grant waits."""
        value = wait.waiter + json.dumps([wait.name, wait.who, wait.label], ensure_ascii=False).encode()
        request = command("SET", keys.waits(self._namespace, holder), value, "PX", PUBLISHED_MS)
        return _aside(request, lambda reply, sent: None)

    def retract_step(self, holder: Owner, waiter: Owner) -> Step:
        """Removes the record when the wait is over."""
        return Step(
            RETRACT.request((keys.waits(self._namespace, holder),), waiter),
            None,
            lambda reply, sent: None,
            patience=1.0,
            undo=True,
        )

    def published_step(self, holder: Owner) -> Step:
        """Reads what the owner of this grant waits for: a Wait, or None."""
        return _aside(command("GET", keys.waits(self._namespace, holder)), lambda reply, sent: read_wait(reply))

    def blockers_step(self, name: str, waiter: Owner) -> Step:
        """Reads the owners that block the waiter; none if it does not wait for this name (any more)."""
        names = keys.keys_of(self._namespace, name)
        return Step(
            BLOCKERS.request(names, waiter),
            None,
            lambda reply, sent: tuple(reply),
            patience=LONGEST_PATIENCE,
            aside=True,
        )

    def records_step(self, owners: list[Owner]) -> Step:
        step = self._store.records_step(owners)
        step.aside = True
        return step


def _aside(request: bytes, read: Callable[[Any, float], Any]) -> Step:
    return Step(request, None, read, patience=LONGEST_PATIENCE, aside=True)


def read_wait(value: bytes | None) -> Wait | None:
    if value is None:
        return None
    try:
        name, who, label = json.loads(value[OWNER_SIZE:])
    except (ValueError, TypeError):
        return None  # written by another version, or by another program
    return Wait(value[:OWNER_SIZE], str(name), str(who), None if label is None else str(label))
