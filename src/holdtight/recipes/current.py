"""`holdtight.current_lease`."""

from typing import TYPE_CHECKING, Any

from holdtight.base.identity import identity

if TYPE_CHECKING:
    from holdtight.grants.lease import BaseLease

__all__ = ["current_lease"]


def current_lease(name: str | None = None) -> "BaseLease":
    """The lease of the innermost block or job of the current thread or task; with a name, of the innermost one on that
    lock. Code deep inside a job can `check()` it, or pass its fence to a resource.

    Raises LookupError if there is none. A thread or task that was started inside the block has none of its own.

    Example:
        >>> @locks.synchronized("order:{order_id}")
        ... def ship(order_id):
        ...     pack()
        >>> def pack():
        ...     current_lease().check()
        >>> ship(42)
    """
    for key, entered in reversed(identity().stack):
        if name is None or key[1] == name:
            lease: Any = getattr(entered, "lease", entered)
            while lease.successor is not None:
                lease = lease.successor
            return lease  # type: ignore[no-any-return]
    of = "" if name is None else f" on {name!r}"
    raise LookupError(f"this thread or task is in no block{of}: nothing here is under a lock")
