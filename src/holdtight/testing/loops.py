"""Event loops that have been given something to do, and letting them do it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Loops", "is_blind"]

MOST_TURNS = 1000
BLIND_TURNS = 32
"""For an event loop that does not show whether there is anything left to do."""


class Loops:
    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._busy: dict[asyncio.AbstractEventLoop, None] = {}

    def call_soon(self, loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return  # it is closed, and with it all who could be told
        self._busy[loop] = None

    def must_turn(self, own: asyncio.AbstractEventLoop) -> bool:
        """Whether the loop that runs in this thread has something to do first."""
        return own in self._busy or bool(_ready(own))

    def was_called(self, own: asyncio.AbstractEventLoop) -> bool:
        """The same, of what we have given it."""
        return own in self._busy

    def turn_others(self, own: asyncio.AbstractEventLoop | None) -> bool:
        """Lets those in other threads do what they have been given. False if there was nothing."""
        others = [loop for loop in self._busy if loop is not own]
        for loop in others:
            self._busy.pop(loop, None)
            if loop.is_running():
                done = threading.Event()
                _run_down(loop, done.set)
                done.wait(self._patience)
        return bool(others)

    async def turn(self, own: asyncio.AbstractEventLoop) -> bool:
        """Lets the running loop turn until nothing is left to do in it but wait. False if that does not come."""
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
    """What a loop will do next. Not part of its interface; uvloop, for one, does not show it."""
    return getattr(loop, "_ready", None)


def _run_down(loop: asyncio.AbstractEventLoop, done: Callable[[], object], turns: int = 0) -> None:
    """As `turn`, from another thread."""

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
