# mypy: disable-error-code="import-untyped"
# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
"""Django: clients from the settings, a lock with a transaction inside, the guard's table as a migration, a command.

INSTALLED_APPS = [..., "holdtight.contrib.django"]
HOLDTIGHT = {"target": "redis://localhost:6379/0", "ttl": 10}  # the arguments of Locks; or just the target
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdtight.fencing.sql import SqlGuard
from holdtight.sync.lease import Lease

if TYPE_CHECKING:
    from holdtight.aio.locks import AsyncLocks
    from holdtight.sync.locks import Locks

    locks: Locks
    async_locks: AsyncLocks

__all__ = ["async_locks", "guard", "locked", "locks"]

guard = SqlGuard("holdtight_fence")
"""The guard whose table the migration of this app creates."""
_opening = threading.Lock()


def __getattr__(name: str) -> Any:
    """`locks` and `async_locks`: one client each for the process, made when they are first asked for."""
    if name not in ("locks", "async_locks"):
        raise AttributeError(f"module 'holdtight.contrib.django' has no attribute {name!r}")
    from django.conf import settings

    import holdtight

    given = getattr(settings, "HOLDTIGHT", {})
    options = given if isinstance(given, dict) else {"target": given}
    with _opening:
        if name not in globals():
            globals()[name] = (holdtight.Locks if name == "locks" else holdtight.AsyncLocks)(**options)
        return globals()[name]


@contextmanager
def locked(name: str, using: str = "default", **options: Any) -> Generator[Lease, None, None]:
    """A block under the lock `name`, in one transaction of the database `using` that has claimed the lease's fence:
    lock, begin, claim, commit, release. It gives the lease. The options are those of `lock`. Load objects inside.

    Raises WrongTransaction inside of another transaction: with ATOMIC_REQUESTS, mark the view with
    `@transaction.non_atomic_requests`. The app must be installed and migrated.

    Example:
        with locked(f"account:{pk}", wait=5):
            account = Account.objects.get(pk=pk)
            account.balance += amount
            account.save()
    """
    with __getattr__("locks").lock(name, **options) as lease, guard.under(lease, using):
        yield lease
