"""A process without free descriptors can give back, prolong and sign the drop-in's locks: none of these opens a file.

On a server without a checked delete of its own, a release is a script as well.
"""

from __future__ import annotations

import pytest

from tests.support.processes import StartChild, wait_for
from tests.support.servers import REDIS_6, RunningServer, StartServer

CHILD = """
import asyncio, os, sys
import redis, redis.asyncio
from holdtight.compat.redis_py import AsyncLock, Lock
from tests.support.starving import starve

def interrupted(what):
    # A Ctrl-C when the release begins to give the lock back.
    def interrupt(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "_give_back":
            sys.setprofile(None)
            raise KeyboardInterrupt
    sys.setprofile(interrupt)
    try:
        what()
    except KeyboardInterrupt:
        pass

def blocking():
    client = redis.Redis(port=int(args[0]))
    def lock(name, **options):
        return Lock(client, name, **options)
ACT

async def asynchronous():
    client = redis.asyncio.Redis(port=int(args[0]))
    def lock(name, **options):
        return AsyncLock(client, name, **options)
ASYNC_ACT

try:
    blocking() if args[1] == "blocking" else asyncio.run(asynchronous())
except BaseException as error:
    say(repr(error))
    raise
say("done")
"""

TAKEN = "mine = lock('mine', timeout=600)\nAWAIT mine.acquire()\n"
TAKEN_FOR_EVER = "mine = lock('mine')\nAWAIT mine.acquire()\n"
SIGNED = "mine = lock('mine', timeout=600)\nAWAIT mine.acquire(token='the service')\n"
GIVEN_BACK = "AWAIT mine.release()\n"
ACTS = {
    "release": TAKEN + "starve()\n" + GIVEN_BACK,
    "release what never expires": TAKEN_FOR_EVER + "starve()\n" + GIVEN_BACK,
    "leave a block": "ASYNC with lock('mine', timeout=600):\n    starve()\n",
    "extend": TAKEN + "starve()\nAWAIT mine.extend(600)\n" + GIVEN_BACK,
    "reacquire": TAKEN + "starve()\nAWAIT mine.reacquire()\n" + GIVEN_BACK,
    "release what has a text": SIGNED + "starve()\n" + GIVEN_BACK,
    "take another with a text": TAKEN
    + "starve()\nother = lock('other', timeout=600)\nAWAIT other.acquire(token='the service')\nAWAIT other.release()\n"
    + GIVEN_BACK,
    "take another that never expires": TAKEN
    + "starve()\nother = lock('other')\nAWAIT other.acquire()\nAWAIT other.release()\n"
    + GIVEN_BACK,
}


def program(act: str) -> str:
    plain = act.replace("AWAIT ", "").replace("ASYNC ", "")
    coloured = act.replace("AWAIT ", "await ").replace("ASYNC ", "async ")
    return CHILD.replace("ASYNC_ACT", _indented(coloured)).replace("ACT", _indented(plain))


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


@pytest.fixture
def server(start_server: StartServer) -> RunningServer:
    return start_server(flavour=REDIS_6)


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
@pytest.mark.parametrize("act", ACTS)
def test_nothing_is_loaded_after_the_grant(
    start_child: StartChild, server: RunningServer, act: str, colour: str
) -> None:
    child = start_child(program(ACTS[act]), str(server.port), colour)
    child.expect("done")
    assert not server.keys()


def test_a_release_that_is_interrupted_is_made_up_for_once_there_are_descriptors(
    start_child: StartChild, server: RunningServer
) -> None:
    act = TAKEN_FOR_EVER + "taken = starve()\ninterrupted(mine.release)\nsay('interrupted')\nhear()\n"
    act += "for each in taken: os.close(each)\nhear()\n"
    child = start_child(program(act), str(server.port), "blocking")
    child.expect("interrupted")
    assert server.keys() == ["mine"]
    child.send("you may open files again")
    wait_for(lambda: not server.keys())
    child.send("end")
    child.expect("done")
