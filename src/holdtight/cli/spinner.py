"""A line on the terminal while a command waits for its lock: its place in line, and the holder."""

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from holdtight import LockError, LockInfo, Locks
from holdtight.cli.printing import plain

__all__ = ["shown_while_waiting"]

FIRST_LOOK = 0.5
EVERY = 1.0


@contextmanager
def shown_while_waiting(locks: Locks, name: str) -> Generator[None]:
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(locks, name, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2.0)


def _show(locks: Locks, name: str, over: threading.Event) -> None:
    if over.wait(FIRST_LOOK):
        return
    from rich.console import Console
    from rich.text import Text

    with suppress(OSError), Console(stderr=True).status(Text(plain(f"waiting for {name!r}"))) as status:
        while not over.wait(EVERY):
            with suppress(LockError, RuntimeError):
                status.update(Text(plain(describe(name, locks.inspect(name)))))


def describe(name: str, info: LockInfo) -> str:
    """`waiting for 'nightly': place 2 of 3, held by web-3:811 (cron)`."""
    text = f"waiting for {name!r}"
    me = (socket.gethostname(), os.getpid())
    for place, waiter in enumerate(info.waiters, 1):
        if (waiter.host, waiter.pid) == me:
            text += f": place {place} of {info.waiting}"
            break
    if info.holders:
        holder = info.holders[0]
        who = f"{holder.host}:{holder.pid}" if holder.host else holder.owner
        text += f", held by {who}" + (f" ({holder.label})" if holder.label else "")
    return text
