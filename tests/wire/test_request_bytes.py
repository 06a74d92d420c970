"""The requests that clients send for the usual verbs, byte by byte.

What differs from run to run is replaced: `OWNER`, `INBOX`, `TIME` (the arrival limit, the proposal and the like) and
`PASSPORT` (of a vote). A script's hash is replaced by its name, so that an edit of a script changes nothing here. The
lengths in front of the words are checked against the words, and then left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.stores.redis.quorum_store import AGREE, RESIGN, VOTE
from holdtight.stores.redis.script import ADOPT, ATTEMPT, DOWNGRADE, MULTI, RELEASE, RENEW, SHARE, TOUCH, WITHDRAW
from tests.support.proxy import Proxy, Request
from tests.support.servers import StartServer

SCRIPTS = (ATTEMPT, SHARE, RELEASE, RENEW, WITHDRAW, TOUCH, ADOPT, DOWNGRADE, MULTI, VOTE, AGREE, RESIGN)
NAMES = {text: script.name.encode() for script in SCRIPTS for text in (script.sha.encode(), script.body)}

KEYS = "ht:{a} ht:{a}:q ht:{a}:w ht:{a}:h"
ONE_SERVER = {
    "lock": [
        f"EVALSHA attempt 4 {KEYS} 30000 40000 10000 me INBOX TIME OWNER",
        f"EVALSHA release 4 {KEYS} OWNER",
    ],
    "try": [
        f"EVALSHA attempt 4 {KEYS} 30000 40000 0  INBOX TIME OWNER",
        f"EVALSHA release 4 {KEYS} OWNER",
    ],
    "renew": [
        f"EVALSHA attempt 4 {KEYS} 30000 40000 10000  INBOX TIME OWNER",
        "EVALSHA renew 3 ht:{a} ht:{a}:w ht:{a}:h OWNER 60000 70000 TIME",
        f"EVALSHA release 4 {KEYS} OWNER",
    ],
    "read": [
        f"EVALSHA attempt_shared 4 {KEYS} r 1 0 30000 40000 10000  INBOX TIME OWNER",
        f"EVALSHA release 4 {KEYS} OWNER",
    ],
    "permits": [
        f"EVALSHA attempt_shared 4 {KEYS} p 2 3 30000 40000 10000  INBOX TIME OWNER",
        f"EVALSHA release 4 {KEYS} OWNER",
    ],
}
QUORUM = [
    "EVALSHA vote 2 ht:{a} ht:stamp x 40000  OWNER TIME INBOX PASSPORT TIME OWNER",
    "EVAL resign 1 ht:{a} OWNER",
]
"""What undoes goes out with its script until the node has shown that it knows it."""
UNASKED = [f"EVAL withdraw 4 {KEYS} OWNER MARKER !"]
"""Of a node that was not connected to before the release: a vote that came late would be refused. With `!` it answers
whether there was a vote."""


def words_of(raw: bytes) -> list[bytes]:
    """The words of a request, which must say the right lengths: an owner may contain any bytes."""
    words, at = list[bytes](), raw.index(b"\r\n") + 2
    count = int(raw[1 : at - 2])
    for _ in range(count):
        end = raw.index(b"\r\n", at)
        size = int(raw[at + 1 : end])
        words.append(raw[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    assert raw == b"*%d\r\n" % count + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return words


def legible(request: Request) -> str:
    words = words_of(request.raw)
    found = [words[0], NAMES[words[1]]]
    for word in words[2:]:
        if re.fullmatch(rb"[0-9]{16}", word):
            word = b"TIME"
        elif re.fullmatch(rb"[0-9]{13}", word):
            word = b"MARKER"
        elif word.startswith(b"ht:inbox:"):
            word = b"INBOX"
        elif re.fullmatch(rb"\+?[0-9]{9}([0-9a-f]{40})?", word):
            word = b"PASSPORT"
        elif len(word) == 24:
            word = b"OWNER"
        found.append(word)
    return b" ".join(found).decode()


def blocking(targets: list[str], verbs: str) -> None:
    with Locks(targets[0] if len(targets) == 1 else targets, restart_guard=False) as locks:
        if verbs == "lock":
            with locks.lock("a", label="me"):
                pass
        elif verbs == "try":
            lease = locks.lock("a").try_acquire()
            assert lease is not None
            lease.release()
        elif verbs == "renew":
            lease = locks.lock("a").acquire()
            lease.renew(ttl=60)
            lease.release()
        elif verbs == "read":
            with locks.rwlock("a").read():
                pass
        elif verbs == "permits":
            locks.semaphore("a", permits=3).acquire(n=2).release()
        else:
            with locks.lock("a"):
                pass


def with_asyncio(targets: list[str], verbs: str) -> None:
    async def main() -> None:
        async with AsyncLocks(targets[0] if len(targets) == 1 else targets, restart_guard=False) as locks:
            if verbs == "lock":
                async with locks.lock("a", label="me"):
                    pass
            elif verbs == "try":
                lease = await locks.lock("a").try_acquire()
                assert lease is not None
                await lease.release()
            elif verbs == "renew":
                lease = await locks.lock("a").acquire()
                await lease.renew(ttl=60)
                await lease.release()
            elif verbs == "read":
                async with locks.rwlock("a").read():
                    pass
            elif verbs == "permits":
                await (await locks.semaphore("a", permits=3).acquire(n=2)).release()
            else:
                async with locks.lock("a"):
                    pass

    asyncio.run(main())


@pytest.fixture(params=[blocking, with_asyncio], ids=["blocking", "asyncio"])
def play(request: pytest.FixtureRequest) -> Callable[[list[str], str], None]:
    chosen: Callable[[list[str], str], None] = request.param
    return chosen


@pytest.fixture
def proxies(start_server: StartServer) -> Iterator[Callable[[int], list[Proxy]]]:
    """Each in front of a server that knows all scripts."""

    def begin() -> Proxy:
        server = start_server()
        for script in SCRIPTS:
            assert server.command("SCRIPT", "LOAD", script.body) == script.sha
        return stack.enter_context(Proxy(server.port))

    with ExitStack() as stack:
        yield lambda count: [begin() for _ in range(count)]


def scripts_asked_for(proxy: Proxy) -> list[str]:
    return [legible(each) for each in proxy.requests if each.words[0].startswith(b"EVAL")]


@pytest.mark.parametrize("verbs", ONE_SERVER)
def test_requests_to_one_server(
    verbs: str, play: Callable[[list[str], str], None], proxies: Callable[[int], list[Proxy]]
) -> None:
    (proxy,) = proxies(1)
    play([proxy.url], verbs)
    assert scripts_asked_for(proxy) == ONE_SERVER[verbs]


def test_requests_to_the_nodes_of_a_quorum(
    play: Callable[[list[str], str], None], proxies: Callable[[int], list[Proxy]]
) -> None:
    nodes = proxies(3)
    play([proxy.url for proxy in nodes], "quorum")
    told = [scripts_asked_for(proxy) for proxy in nodes]
    assert told.count(QUORUM) >= 2  # a node that was not needed may be told late, or not at all
    assert all(each == QUORUM[: len(each)] or each == UNASKED for each in told), told
