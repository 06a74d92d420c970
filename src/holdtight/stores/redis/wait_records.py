"""What waiters publish so that deadlocks can be found: the requests behind core/deadlock.py.

`ns:waits:<owner>` says, for the owner of a grant, what its task or thread waits for, and as whom. Loaded when somebody
first waits with a lock in hand, not with the package.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.plan import Step
from holdtight.base.values import OWNER_SIZE, Owner, Wait
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script

if TYPE_CHECKING:
    from holdtight.stores.redis.store import Store

__all__ = ["BLOCKERS", "PUBLISHED_MS", "RETRACT", "Waits"]

BLOCKERS = Script("blockers")
RETRACT = Script("retract")
PUBLISHED_MS = 10_000
"""How long a publication stays that nobody takes back or repeats."""
PATIENCE = 2.0


class Waits:
    """Every request is about one key, or the keys of one name: on a cluster each has a slot of its own."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._namespace = store.client.namespace

    def publish_step(self, holder: Owner, wait: Wait) -> Step:
        """The owner of this grant waits."""
        value = wait.waiter + json.dumps([wait.name, wait.who, wait.label], ensure_ascii=False).encode()
        request = command("SET", keys.waits(self._namespace, holder), value, "PX", PUBLISHED_MS)
        return _aside(request, lambda reply, sent: None)

    def retract_step(self, holder: Owner, waiter: Owner) -> Step:
        """It waits no more."""
        return Step(
            RETRACT.request((keys.waits(self._namespace, holder),), waiter),
            None,
            lambda reply, sent: None,
            patience=1.0,
            undo=True,
        )

    def published_step(self, holder: Owner) -> Step:
        """What the owner of this grant waits for: a Wait, or None."""
        return _aside(command("GET", keys.waits(self._namespace, holder)), lambda reply, sent: _wait(reply))

    def blockers_step(self, name: str, waiter: Owner) -> Step:
        """The owners that keep the waiter from the name; none if it does not wait there (any more)."""
        names = keys.keys_of(self._namespace, name)
        return Step(
            BLOCKERS.request(names, waiter),
            None,
            lambda reply, sent: tuple(reply),
            patience=PATIENCE,
            aside=True,
        )

    def records_step(self, owners: list[Owner]) -> Step:
        return self._store.records_step(owners)


def _aside(request: bytes, read: Callable[[Any, float], Any]) -> Step:
    return Step(request, None, read, patience=PATIENCE, aside=True)


def _wait(value: bytes | None) -> Wait | None:
    if value is None:
        return None
    try:
        name, who, label = json.loads(value[OWNER_SIZE:])
    except (ValueError, TypeError):
        return None  # another version's, or not ours at all
    return Wait(value[:OWNER_SIZE], str(name), str(who), None if label is None else str(label))
