"""Tests of interrupts run these programs in children: signals go to the main thread, which is pytest's otherwise."""

from __future__ import annotations

import random
import signal
import threading
from typing import Any

import redis

from holdtight.compat.local import Held
from holdtight.compat.redis_py import Lock
from holdtight.keeper.charges import DeferredUndo
from holdtight.keeper.keeper import Keeper
from tests.support.processes import wait_for

LAST = b"the last of all"
"""The keeper sends a request for this owner at the end, after all its other requests."""


class Interrupted(Exception):
    """As raised by the handlers that people write for SIGALRM."""


def _raise(number: int, frame: Any) -> None:
    raise Interrupted


def at_any_moment(url: str, options: str, seed: str = "11") -> None:
    source = random.Random(seed)
    client = redis.Redis.from_url(url)
    lock = Lock(client, "a", timeout=None if options == "for ever" else 600, sleep=0.001)
    signal.signal(signal.SIGALRM, _raise)
    held = given_up = 0
    for _ in range(150):
        got = False
        try:
            signal.setitimer(signal.ITIMER_REAL, source.uniform(1e-5, 2e-3))
            got = lock.acquire(token="mine" if options == "token" else None)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if got or lock.local.token is not None:
            held += 1
            lock.release()
        else:
            given_up += 1
        wait_for(lambda: not client.exists("a"), what="the key to go")
    assert held, "all were interrupted"
    assert given_up, "none was interrupted"
    print("clean", flush=True)


def once(url: str, token: str | None = None) -> None:
    client = redis.Redis.from_url(url)
    with Lock(client, "warm", timeout=10):
        pass
    lock = Lock(client, "a", timeout=600)
    print("asking", flush=True)
    try:
        lock.acquire(token=token)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    lock._not_given_back(lock._plain(), Held(LAST, 0.0))
    signal.pause()


def once_and_paused(url: str, token: str) -> None:
    """As `once`; the main thread is paused after each deferred undo until the server has carried it out."""
    ask = Keeper.ask

    def ask_and_pause(keeper: Keeper, charge: Any) -> None:
        ask(keeper, charge)
        if type(charge) is DeferredUndo and threading.current_thread() is threading.main_thread():
            wait_for(lambda: not charge.alive)

    Keeper.ask = ask_and_pause  # type: ignore[assignment, method-assign]
    once(url, token)
