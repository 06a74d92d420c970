"""What the rungs share: a private server, and actors that are processes of their own.

A role is a generator. Its actor runs it in a process of its own, from one `yield` to the next and no further, when
the scene says so: the scene fixes which process does what, and in which order. The program prints what a role yields.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from redis import Redis

from holdtight.embedded import Server

PATIENCE = 20.0
"""Seconds after which an expected event counts as missing."""

Role = Callable[..., Iterator[str]]


def climb(
    story: str | None,
    scene: Callable[["Stage", Any], bool],
    *,
    below: Any,
    here: Any,
    servers: tuple[int, int] = (1, 1),
) -> None:
    """Plays one scene on the rung below and on this one. The scene returns True if harm was done.

    Ends the program: with 0 only if the harm was done below, and not here.
    """
    print((story or "").strip())
    seen = []
    for where, props, count in zip(("On the rung below", "Here"), (below, here), servers, strict=True):
        print(f"\n{where}:", flush=True)
        with Stage(count) as stage:
            seen.append(scene(stage, props))
    answers = ["yes" if harm else "no" for harm in seen]
    print(f"\nThe fault on the rung below: {answers[0]}. Here: {answers[1]}.")
    sys.exit(0 if answers == ["yes", "no"] else 1)


def tell(text: str) -> None:
    print(f"  {text}", flush=True)


def wait_for(condition: Callable[[], Any], within: float = PATIENCE) -> Any:
    """Asks again and again until the answer is true, and returns it."""
    end = time.monotonic() + within
    while not (answer := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within:g} s")
        time.sleep(0.005)
    return answer


class Stage:
    """Empty servers and their actors; none of them outlives the `with` block."""

    def __init__(self, servers: int) -> None:
        self._stack = ExitStack()
        self.servers = [self._stack.enter_context(Server()) for _ in range(servers)]
        self.urls = [server.url for server in self.servers]
        self.url = self.urls[0]
        self.redis: Any = self._stack.enter_context(Redis.from_url(self.url, decode_responses=True))

    def actor(self, name: str, role: Role, *args: Any) -> "Actor":
        """A process that will play `role(url, *args)`."""
        return self._stack.enter_context(Actor(name, role, (self.url, *args)))

    def comes_free(self, key: str) -> bool:
        """Whether the key goes by itself. One that has no expiry never does."""
        if self.redis.pttl(key) == -1:
            tell("The key has no expiry: nobody will ever have this lock again.")
            return False
        wait_for(lambda: not self.redis.exists(key))
        tell("The key is gone when its ttl is over: the lock can be had again.")
        return True

    def let_expire(self, key: str) -> None:
        """Time passes: the key is as it would be when its ttl is over, only sooner."""
        self.redis.pexpire(key, 1)
        wait_for(lambda: not self.redis.exists(key))
        tell("Time passes, and the ttl of the lock is over.")

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class Actor:
    """A process that plays a role, step by step."""

    def __init__(self, name: str, role: Role, args: tuple[Any, ...]) -> None:
        self.name = name
        self._wire, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_play, args=(role, args, self._wire, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def step(self) -> str:
        """Lets the actor go on to its next `yield`, and says what it yields."""
        self.begin()
        return self.answer()

    def begin(self) -> None:
        """The first half of a step, for one that waits for something."""
        self._wire.send("go on")

    def answer(self) -> str:
        """The second half."""
        if not self._wire.poll(PATIENCE):
            raise TimeoutError(f"{self.name} does not answer")
        words: str = self._wire.recv()
        self.tell(words)
        return words

    def answered(self) -> bool:
        """Whether the second half would come at once."""
        return self._wire.poll()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._process.join()
        self.tell("is killed (kill -9).")

    def pause(self) -> None:
        """Stops the whole process, its background threads too, as a suspended machine would."""
        os.kill(self.pid, signal.SIGSTOP)
        self.tell("is paused, with all its threads (SIGSTOP).")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.tell("wakes up (SIGCONT).")

    def tell(self, words: str) -> None:
        tell(f"{self.name} {words}")

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def __enter__(self) -> "Actor":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()
        self._wire.close()


def _play(role: Role, args: tuple[Any, ...], far_end: Any, wire: Any) -> None:
    far_end.close()  # so that the connection ends with the scene
    play = role(*args)
    try:
        while True:
            wire.recv()
            wire.send(next(play))
    except (EOFError, StopIteration, KeyboardInterrupt):
        pass


# A fork is quickest, and the actors touch nothing that they inherit. On macOS a fork is never safe.
_processes: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "forkserver")
