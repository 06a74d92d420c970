"""What the scripts about paused holders share: a lock server of their own, and actors that are processes.

A role is a generator. An actor runs it in a process of its own, from one `yield` to the next, when the script says so.
"""

import multiprocessing
import os
import signal
import sys
from contextlib import ExitStack

from holdtight.embedded import Server

PATIENCE = 20.0
_processes = multiprocessing.get_context("fork" if sys.platform == "linux" else "forkserver")


def show(story, scene):
    """Plays the scene without a guard and with one; it returns what went wrong, or nothing. Ends the program: with 0
    only if something went wrong without, and nothing with."""
    print(story.strip())
    faults = []
    for title, guarded in (("With a lock alone", False), ("With a guard", True)):
        print(f"\n{title}:", flush=True)
        with ExitStack() as stack:
            url = stack.enter_context(Server()).url

            def actor(name, role, *args, stack=stack, url=url):
                return stack.enter_context(Actor(name, role, (url, *args)))

            faults.append(scene(actor, guarded))
        print(f"  {faults[-1] or 'Nothing is wrong.'}", flush=True)
    shown = bool(faults[0]) and not faults[1]
    print(
        f"\nThe fault with a lock alone: {'yes' if faults[0] else 'no'}. With a guard: {'yes' if faults[1] else 'no'}."
    )
    sys.exit(0 if shown else 1)


def one_is_paused(first, second):
    """`first` reads and is paused, `second` does its work, `first` goes on. Returns the last words of both."""
    first.step()
    first.pause()
    second.begin()  # waits until the lease of `first` is over
    if second.answers(within=3):
        second.answer()
        last = second.step()
        first.resume()
        return first.step(), last
    print(f"  {second.name} waits for the transaction of {first.name}.", flush=True)
    first.resume()
    last = first.step()
    second.answer()
    return last, second.step()


class Actor:
    def __init__(self, name, role, args):
        self.name = name
        self._wire, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_play, args=(role, args, self._wire, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self):
        """Lets the actor go on to its next `yield`."""
        self._wire.send("go on")

    def answer(self):
        """What it yields there."""
        if not self._wire.poll(PATIENCE):
            raise TimeoutError(f"{self.name} does not answer")
        words = self._wire.recv()
        print(f"  {self.name} {words}", flush=True)
        return words

    def answers(self, within):
        """Whether it comes to its next `yield` in that time."""
        return self._wire.poll(within)

    def step(self):
        self.begin()
        return self.answer()

    def pause(self):
        os.kill(self._process.pid, signal.SIGSTOP)
        print(f"  {self.name} is paused, with all threads (SIGSTOP).", flush=True)

    def resume(self):
        os.kill(self._process.pid, signal.SIGCONT)
        print(f"  {self.name} goes on (SIGCONT).", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.join()
        self._wire.close()


def _play(role, args, far_end, wire):
    far_end.close()
    play = role(*args)
    try:
        while True:
            wire.recv()
            wire.send(next(play))
    except (EOFError, StopIteration, KeyboardInterrupt):
        pass
