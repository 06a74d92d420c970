"""Every request of the drop-in that writes, delivered late: nothing that came after it is undone.

A request gets stuck in the network. Its sender gives it up (`hung`), or its connection is reset (`reset`), and the
sender asks again on another one. Then the lock is used further, and only then the stuck request arrives. A late packet
changes nothing: neither the value under the key nor its expiry. WHY_NOT has the cells that cannot happen, and the two
exceptions stand in `Late.allowed`. DELEX has no rows: no server here has it, and it names what DELIFEQ names.

The memory store is not tested here: the drop-in takes a client of redis-py or valkey-py, which uses a server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import redis.lock
from redis.exceptions import ConnectionError

from holdtight.compat.redis_py import Lock
from holdtight.stores.redis import plain_store
from tests.compat.face import Colour, Face, OpenFace, open_face, takes
from tests.faults.clients import asks, start
from tests.support.processes import wait_for
from tests.support.proxy import Order, Proxy
from tests.support.servers import RunningServer

FAULTS = ("hung", "reset")
TIMEOUT = 30
WORKERS = 8
TEXT = "the service"
SCRIPTS = (plain_store.TAKE, plain_store.GIVE, plain_store.KEEP, plain_store.SIGN, plain_store.UNSIGN)


class Cell:
    """One lock in the hands of one client, which goes through the proxy, and others that go straight to the server."""

    def __init__(self, name: str, server: RunningServer, proxy: Proxy, face: Face, timeout: float | None) -> None:
        self.name, self.port, self.proxy, self.timeout = name, server.port, proxy, timeout
        self.lock = face.lock(name, timeout=timeout, sleep=0.01)
        self.db = face.client.connection_pool.connection_kwargs.get("db", 0)
        self.raw = server.connect()
        self.raw.call("SELECT", self.db)

    def lose(self, match: Callable[[bytes], bool], fault: str) -> Order:
        named = b"\r\n%b\r\n" % self.name.encode()
        return self.proxy.swallow_request(lambda raw: named in raw and match(raw), cut=fault == "reset")

    def other(self, timeout: float | None = None) -> Any:
        """A lock object of another holder."""
        return Lock(self.client(), self.name, timeout=timeout or self.timeout)

    def client(self) -> Any:
        return redis.Redis(port=self.port, db=self.db)

    def handed_over(self) -> Any:
        """Another lock object that is told the value under the key, as another process would be."""
        other = self.other()
        other.local.token = self.raw.call("GET", self.name)
        return other

    def state(self) -> tuple[str | None, int]:
        """The value of the key, and its expiry."""
        return self.raw.call("GET", self.name), int(self.raw.call("PEXPIRETIME", self.name))


@dataclass(frozen=True)
class Late:
    """`do` sends the request that gets stuck; `before` runs first."""

    match: Callable[[bytes], bool]
    do: Callable[[Cell], Any]
    before: Callable[[Cell], Any] = lambda _: None
    timeouts: tuple[float | None, ...] = (TIMEOUT, None)
    held: bool = True
    """The lock is held when it is done, and stays so."""
    text: bool = False
    """Its value is a text that the caller chose."""
    allowed: str = ""
    """`lengthens`: a late attempt of the holder may; `ghost`: it may take a free lock, which its taker's keeper gives
    back once it has been released there. With a timeout, that ends it as well."""


def covers(raw: bytes) -> bool:
    return asks(plain_store.UNSIGN)(raw) or asks(plain_store.SIGN)(raw)


def take(cell: Cell) -> None:
    assert cell.lock.acquire(blocking_timeout=20) is True


def take_with_text(cell: Cell) -> None:
    assert cell.lock.acquire(token=TEXT, blocking_timeout=20) is True


def known(cell: Cell) -> None:
    take(cell)
    cell.lock.reacquire()


def known_with_text(cell: Cell) -> None:
    take_with_text(cell)
    cell.lock.reacquire()


def polled(cell: Cell) -> None:
    cell.raw.call("SET", cell.name, "somebody")


def give(cell: Cell) -> None:
    cell.lock.release()


LATE: dict[str, Late] = {
    "SET NX": Late(takes, take, timeouts=(TIMEOUT,), allowed="ghost"),
    "plain_take": Late(asks(plain_store.TAKE), take, timeouts=(None,), allowed="ghost"),
    "plain_take, a retry": Late(asks(plain_store.TAKE), take, polled, timeouts=(TIMEOUT,), allowed="lengthens, ghost"),
    "plain_sign": Late(asks(plain_store.SIGN), take_with_text, text=True),
    "extend": Late(asks(plain_store.KEEP), lambda cell: cell.lock.extend(10), known, timeouts=(TIMEOUT,)),
    "extend to": Late(asks(plain_store.KEEP), lambda cell: cell.lock.extend(10, True), known, timeouts=(TIMEOUT,)),
    "reacquire": Late(asks(plain_store.KEEP), lambda cell: cell.lock.reacquire(), known, timeouts=(TIMEOUT,)),
    "extend, with a text": Late(
        asks(plain_store.KEEP), lambda cell: cell.lock.extend(10), known_with_text, timeouts=(TIMEOUT,), text=True
    ),
    "reacquire, with a text": Late(
        asks(plain_store.KEEP), lambda cell: cell.lock.reacquire(), known_with_text, timeouts=(TIMEOUT,), text=True
    ),
    "DELIFEQ": Late(lambda raw: b"DELIFEQ" in raw, give, take, held=False),
    "plain_give": Late(asks(plain_store.GIVE), give, take, held=False),
    "plain_unsign": Late(covers, give, take_with_text, held=False, text=True),
    "plain_give of a cover": Late(asks(plain_store.GIVE), give, take_with_text, held=False, text=True),
}


def again(cell: Cell, token: str | None = None) -> None:
    assert cell.lock.acquire(token=token, blocking_timeout=20) is True


def by_another(cell: Cell, token: str | None = None, *, timeout: float | None = None) -> None:
    assert cell.other(timeout).acquire(token=token, blocking_timeout=20) is True


def by_redis_py(cell: Cell) -> None:
    theirs = redis.lock.Lock(cell.client(), cell.name, timeout=cell.timeout)
    assert theirs.acquire(token=TEXT, blocking_timeout=20) is True


def expired(cell: Cell) -> None:
    """Lets its timeout pass."""
    cell.raw.call("DEL", cell.name)
    pass_some_time(cell)


def released_elsewhere(cell: Cell) -> None:
    cell.handed_over().release()
    pass_some_time(cell)


def pass_some_time(cell: Cell) -> None:
    """The drop-in tells locks apart by their expiry, within 2 ms, and in this test everything happens at once."""

    def now() -> int:
        seconds, micros = cell.raw.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    until = now() + 20
    wait_for(lambda: now() > until)


def steps(*each: Callable[[Cell], Any]) -> Callable[[Cell], None]:
    def run(cell: Cell) -> None:
        for step in each:
            step(cell)

    return run


PROLONGING: dict[str, Callable[[Cell], Any]] = {
    "longer": lambda cell: cell.lock.extend(600, True),
    "shorter": lambda cell: cell.lock.extend(5, True),
    "added": lambda cell: cell.lock.extend(600),
    "added and taken away": lambda cell: (cell.lock.extend(10), cell.lock.extend(-10)),
    "reacquired": lambda cell: cell.lock.reacquire(),
    "prolonged elsewhere": lambda cell: cell.handed_over().extend(600, True),
    "nothing": lambda cell: None,
}
FREEING: dict[str, Callable[[Cell], Any]] = {
    "released": give,
    "released elsewhere": released_elsewhere,
    "expired": expired,
}
TAKING: dict[str, Callable[[Cell], Any]] = {
    "taken by nobody": lambda cell: None,
    "taken again": again,
    "taken again with the text": lambda cell: again(cell, TEXT),
    "taken by another": by_another,
    "taken by another with the text": lambda cell: by_another(cell, TEXT),
    "taken by another with the text for longer": lambda cell: by_another(cell, TEXT, timeout=900),
    "taken by redis-py's lock with the text": by_redis_py,
}
AFTERWARDS: dict[str, Callable[[Cell], Any]] = {
    **PROLONGING,
    **{f"{one}, {two}": steps(FREEING[one], TAKING[two]) for one in FREEING for two in TAKING},
    **TAKING,
}


def why_not(late: Late, afterwards: str, timeout: float | None) -> str | None:
    """Why this cell cannot happen."""
    if timeout not in late.timeouts:
        return (
            "a lock without a timeout is taken by script, one with a timeout first by SET NX; neither extend() nor "
            "reacquire() is allowed without a timeout"
        )
    if late.held is (afterwards in TAKING):
        return "it is held: its owner has to give it back first" if late.held else "it is given back already"
    if not late.held and afterwards not in TAKING:
        return "it is given back already"
    if timeout is None and (afterwards in PROLONGING and afterwards != "nothing"):
        return "neither extend() nor reacquire() is allowed without a timeout"
    if timeout is None and afterwards.startswith("expired"):
        return "without a timeout it does not expire"
    return None


CELLS = [
    (late, afterwards, timeout)
    for late in LATE
    for afterwards in AFTERWARDS
    for timeout in (TIMEOUT, None)
    if why_not(LATE[late], afterwards, timeout) is None
]
WHY_NOT = {
    (late, afterwards, timeout): reason
    for late in LATE
    for afterwards in AFTERWARDS
    for timeout in (TIMEOUT, None)
    if (reason := why_not(LATE[late], afterwards, timeout)) is not None
}


@pytest.fixture
def known_scripts(private_server: RunningServer) -> None:
    with private_server.connect() as client:
        for script in SCRIPTS:
            client.call("SCRIPT", "LOAD", script.body)


@pytest.fixture
def face(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> Face:
    found = open_face(proxy.url)
    with found.lock("warm", timeout=TIMEOUT):
        pass
    return found


def play(cell: Cell, late: Late, afterwards: str, fault: str) -> None:
    late.before(cell)
    if late.before is polled:

        def free_now(raw: bytes) -> bool:
            return late.match(raw) and cell.raw.call("DEL", cell.name) >= 0

        stuck = cell.lose(free_now, fault)
    else:
        stuck = cell.lose(late.match, fault)
    late.do(cell)
    stuck.wait()
    AFTERWARDS[afterwards](cell)
    before = cell.state()
    assert stuck.request is not None
    cell.raw.call(*stuck.request.words)
    after = cell.state()
    if before[0] is None and "ghost" in late.allowed:
        if after[0] is not None and not afterwards.startswith("released,"):
            cell.lock.release()  # as far as it knows, it still has it
        wait_for(lambda: cell.state()[0] is None, within=TIMEOUT + 10, what="the ghost to go")
        return
    assert after[0] == before[0], "the value of another owner"
    if "lengthens" not in late.allowed:
        assert after[1] <= before[1], "added to, or made longer"
    assert after[1] >= before[1], "shortened"


HUNG = (
    *("longer", "shorter", "added", "released, taken by nobody", "released, taken by another with the text"),
    *("taken by nobody", "taken by another with the text"),
)
"""A client gives a hung request up when the server begins to refuse it: later uses of the lock make no difference."""


@pytest.mark.usefixtures("known_scripts")
@pytest.mark.parametrize(
    ("late", "fault"),
    [
        pytest.param(late, fault, marks=pytest.mark.long if (fault == "hung") == number % 2 else ())
        for number, late in enumerate(LATE)
        for fault in FAULTS
    ],
)
def test_a_late_packet_changes_nothing(
    private_server: RunningServer, proxy: Proxy, colour: Colour, late: str, fault: str
) -> None:
    cells = [(what, timeout) for each, what, timeout in CELLS if each == late and (fault == "reset" or what in HUNG)]
    assert cells
    databases = iter(range(WORKERS))
    mine = threading.local()

    def settle() -> None:
        mine.db = next(databases)  # so that every client has connections of its own

    def run(number: int, afterwards: str, timeout: float | None) -> str | None:
        with closing(open_face("ours", colour, proxy.url, db=mine.db)) as face:
            with face.lock("warm", timeout=TIMEOUT) as warm:
                if late == "plain_give":
                    deletion = getattr(warm, "real", warm)._access.deletion
                    deletion.method, deletion.proven = deletion.SCRIPT, True
            cell = Cell(f"name {number}", private_server, proxy, face, timeout)
            with closing(cell.raw):
                try:
                    play(cell, LATE[late], afterwards, fault)
                except Exception as error:
                    return f"{afterwards}, timeout={timeout}: {type(error).__name__}: {error}"
        return None

    with ThreadPoolExecutor(WORKERS, initializer=settle) as pool:
        futures = [pool.submit(run, number, *cell) for number, cell in enumerate(cells)]
        broken = [found for future in futures if (found := future.result()) is not None]
    assert not broken, f"{len(broken)} of {len(cells)} cells:\n" + "\n".join(broken)


@pytest.mark.parametrize("timeout", [TIMEOUT, None])
@pytest.mark.usefixtures("known_scripts")
def test_a_text_is_not_free_while_a_request_for_it_may_still_arrive(
    private_server: RunningServer, proxy: Proxy, face: Face, timeout: float | None
) -> None:
    """The stuck request arrives at every moment from the second one on, within its limit and later."""
    cell = Cell("a", private_server, proxy, face, timeout)
    take_with_text(cell)
    stuck = cell.lose(covers, "reset")
    releasing = start(partial(cell.lock.do_release, TEXT))  # by its text: the grant belongs to this thread
    stuck.wait()
    wait_for(lambda: cell.state()[0] != TEXT, what="the cover")
    other = cell.other()
    taking = start(partial(other.do_acquire, TEXT))
    assert stuck.request is not None
    while not (releasing.done() and taking.done() and taking.result()):
        cell.raw.call(*stuck.request.words)
        if taking.done() and not taking.result():
            taking = start(partial(other.do_acquire, TEXT))
    releasing.result()
    held = cell.state()
    cell.raw.call(*stuck.request.words)
    assert cell.state() == held
    assert held[0] == TEXT
    cell.raw.close()


@pytest.mark.parametrize("timeout", [TIMEOUT, None])
@pytest.mark.usefixtures("known_scripts")
def test_a_late_undo_of_a_signing_does_not_hit_the_next_owner_with_the_same_text(
    private_server: RunningServer, proxy: Proxy, face: Face, timeout: float | None
) -> None:
    cell = Cell("a", private_server, proxy, face, timeout)
    for _ in range(2):
        proxy.swallow_reply(asks(plain_store.SIGN), cut=True)
    stuck = cell.lose(asks(plain_store.UNSIGN), "reset")
    with pytest.raises(ConnectionError):
        cell.lock.acquire(token=TEXT)
    stuck.wait()
    assert cell.other().acquire(token=TEXT, blocking_timeout=20) is True
    held = cell.state()
    assert stuck.request is not None
    cell.raw.call(*stuck.request.words)
    assert cell.state() == held
    assert held[0] == TEXT
    cell.raw.close()
