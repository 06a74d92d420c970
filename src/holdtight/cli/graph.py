"""`holdtight show --graph`: a lock, its holders, the locks that those wait for, and so on."""

from collections.abc import Callable, Iterator

from holdtight import Holder, LockInfo, Waiter
from holdtight.cli.rows import duration, holder_text

__all__ = ["graph"]


def graph(info: LockInfo, inspect: Callable[[str], LockInfo]) -> Iterator[str]:
    """The lines of a tree: a lock, its holders, what each of them waits for, and so on; then the waiters."""
    yield info.name
    yield from _holders(info, inspect, (info.name,), "  ")
    for place, waiter in enumerate(info.waiters, 1):
        yield f"  {place}. waits: {_waiter_text(waiter)}"


def _holders(info: LockInfo, inspect: Callable[[str], LockInfo], path: tuple[str, ...], indent: str) -> Iterator[str]:
    if not info.holders:
        yield f"{indent}free"
    for holder in info.holders:
        yield f"{indent}held by {_holder_text(holder)}"
        wanted = holder.waits_for
        if wanted is None:
            continue
        yield f"{indent}  waits for {wanted}"
        if wanted in path:
            circle = [*path[path.index(wanted) :], wanted]
            yield f"{indent}    cycle: {' -> '.join(circle)}"
        else:
            yield from _holders(inspect(wanted), inspect, (*path, wanted), indent + "    ")


def _holder_text(holder: Holder) -> str:
    label = f" ({holder.label})" if holder.label else ""
    left = f", {duration(holder.expires_in)} left" if holder.expires_in is not None else ""
    return f"{holder_text(holder)}{label}{left}"


def _waiter_text(waiter: Waiter) -> str:
    who = f"{waiter.host}:{waiter.pid}" if waiter.host else f"{waiter.owner[:11]}..."
    return f"{who} ({waiter.label})" if waiter.label else who
