"""Tracks event loops with pending calls, and lets them run."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Loops", "is_blind"]

MOST_TURNS = 1000
BLIND_TURNS = 32
"""How often to turn an event loop that does not show whether anything is left to do."""


class Loops:
    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._busy: dict[asyncio.AbstractEventLoop, None] = {}

    def call_soon(self, loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return  # the loop is closed, so no task is left to tell
        self._busy[loop] = None

    def must_turn(self, own: asyncio.AbstractEventLoop) -> bool:
        """True if the loop of this thread has something to do first."""
        return own in self._busy or bool(_ready(own))

    def was_called(self, own: asyncio.AbstractEventLoop) -> bool:
        """The same, but only for calls that we have scheduled."""
        return own in self._busy

    def turn_others(self, own: asyncio.AbstractEventLoop | None) -> bool:
        """Lets loops in other threads run what we have scheduled. False if there was nothing."""
        others = [loop for loop in self._busy if loop is not own]
        for loop in others:
            self._busy.pop(loop, None)
            if loop.is_running():
                done = threading.Event()
                _run_down(loop, done.set)
                done.wait(self._patience)
        return bool(others)

    async def turn(self, own: asyncio.AbstractEventLoop) -> bool:
        """Lets the running loop turn until it only waits. False if it does not get there in MOST_TURNS."""
        self._busy.pop(own, None)
        for turns in range(MOST_TURNS):
            await asyncio.sleep(0)
            ready = _ready(own)
            if turns >= BLIND_TURNS if ready is None else not ready:
                return True
        return False


def is_blind(loop: asyncio.AbstractEventLoop) -> bool:
    return _ready(loop) is None


def _ready(loop: asyncio.AbstractEventLoop) -> Any:
    """The calls that a loop will run next. Not part of the public interface; uvloop, for example, does not have it."""
    return getattr(loop, "_ready", None)


def _run_down(loop: asyncio.AbstractEventLoop, done: Callable[[], object], turns: int = 0) -> None:
    """Like `turn`, from another thread."""

    def turn() -> None:
        nonlocal turns
        turns += 1
        ready = _ready(loop)
        if turns >= MOST_TURNS or (turns >= BLIND_TURNS if ready is None else not ready):
            done()
        else:
            loop.call_soon(turn)

    try:
        loop.call_soon_threadsafe(turn)
    except RuntimeError:
        done()
