"""`test_starting.py` runs these programs in children: something interrupts the very first use."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from holdtight import Locks
from holdtight.base import process
from holdtight.config.targets import TlsSettings
from holdtight.keeper.keeper import THREAD_NAME
from tests.faults.forking import say, wait_for_exit
from tests.support.processes import wait_for


def once_a_thread_is_started(then: Callable[[], object]) -> None:
    """`then` runs when the keeper's thread runs already, and its starter does not know that yet."""
    start, due = process.start_thread, [then]

    def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
        thread = start(target, name)
        while due and name == THREAD_NAME:
            due.pop()()
        return thread

    process.start_thread = start_thread


def keepers() -> int:
    return sum(thread.name == THREAD_NAME for thread in threading.enumerate())


def by_a_handler(url: str) -> None:
    with Locks(url) as locks:

        def handle(*_: Any) -> None:
            with locks.lock("the handler's"):
                say("handled")

        signal.signal(signal.SIGUSR1, handle)
        once_a_thread_is_started(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with locks.lock("a"):
            wait_for(lambda: keepers() == 1)
    say("done")


def by_an_interrupt(url: str) -> None:
    with Locks(url) as locks:
        once_a_thread_is_started(lambda: signal.raise_signal(signal.SIGINT))
        try:
            locks.lock("a", ttl=3).acquire().release()
        except KeyboardInterrupt:
            say("interrupted")
        with locks.lock("b", ttl=3) as lease:
            wait_for(lambda: keepers() == 1)
            until = lease.tenure.deadline
            wait_for(lambda: lease.tenure.deadline > until + 0.5, what="renewals")
            assert keepers() == 1, "the one that was started is the one that renews"
    say("done")


def by_a_fork(url: str) -> None:
    """The settings of TLS are read by one thread while another forks. There is no TLS: only the reading counts."""
    reading, go_on = threading.Event(), threading.Event()
    context = TlsSettings.context

    def read_slowly(settings: TlsSettings) -> Any:
        if os.getpid() == parent:
            reading.set()
            go_on.wait(10)
        return context(settings)

    parent = os.getpid()
    setattr(TlsSettings, "context", read_slowly)  # noqa: B010 - mypy has it that a method is not assigned to
    locks = Locks(url.replace("redis://", "rediss://"))
    address = locks.place.target.address  # type: ignore[attr-defined]
    thread = threading.Thread(target=locks.place.tls_for, args=(address,))  # type: ignore[attr-defined]
    thread.start()
    reading.wait(10)
    pid = os.fork()
    if pid == 0:
        locks.place.tls_for(address)  # type: ignore[attr-defined]
        os._exit(0)
    say(f"child {wait_for_exit(pid)}")
    go_on.set()
    thread.join()
