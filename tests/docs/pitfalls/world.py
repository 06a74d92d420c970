"""The stage of a pitfall: servers, and programs that run the block of code as it stands on the page.

A scene is a function of the world that returns whether harm was done. It never reads the code: the same scene is played
with the wrong block and with the right one.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Self, TypeAlias

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from holdtight import Locks, LockTimeout, StaleFence
from tests.support.processes import PATIENCE, wait_for
from tests.support.servers import RunningServer, StartServer

RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
RENEW = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0'

LIBRARY: dict[str, Any] = {
    "ConnectionError": RedisConnectionError,
    "RELEASE": RELEASE,
    "RENEW": RENEW,
    "StaleFence": StaleFence,
    "json": json,
    "threading": threading,
    "time": time,
    "uuid": uuid,
}
"""What the page says is there: imports, and the two scripts."""


class Gate:
    """A place in a program where the scene holds it up. Give it in place of a function that the block calls."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self, *args: object, **kwargs: object) -> None:
        self._reached.set()
        assert self._open.wait(PATIENCE), "the scene never opens this gate"

    @property
    def reached(self) -> bool:
        return self._reached.is_set()

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE), "the program never came to this gate"

    def open(self) -> None:
        self._open.set()


class Call:
    """A function of the block, running in a thread of its own."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._future: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(function, args), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            self._future.set_result(function(*args))
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def done(self) -> bool:
        return self._future.done()

    def end(self, *tolerated: type[BaseException]) -> Any:
        """What it returned, or raised if the scene tolerates that."""
        try:
            return self._future.result(PATIENCE)
        except tolerated as error:
            return error

    def join(self) -> None:
        self._thread.join(PATIENCE)


class Client(Redis):
    """redis-py's, with a place to interrupt: `interrupts` names commands, and what happens just before them."""

    interrupts: Mapping[str, Callable[[], object]] = MappingProxyType({})

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if interrupt := self.interrupts.get(args[0]):
            interrupt()
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call, unused-ignore]


def client(url: str, **interrupts: Callable[[], object]) -> Client:
    made: Any = Client.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0))
    assert isinstance(made, Client)
    made.interrupts = interrupts
    return made


class Program:
    """The block, loaded as one program loads it: with connections and variables of its own."""

    def __init__(self, block: str, url: str, options: dict[str, Any], names: dict[str, Any]) -> None:
        self.locks = Locks(url, **options)
        self.redis = client(url)
        self._calls: list[Call] = []
        self.names: dict[str, Any] = {**LIBRARY, "redis": self.redis, "locks": self.locks, **names}
        exec(compile(block, "docs/pitfalls.md", "exec"), self.names)

    def start(self, function: str, *args: Any) -> Call:
        call = Call(self.names[function], args)
        self._calls.append(call)
        return call

    def run(self, function: str, *args: Any, tolerate: tuple[type[BaseException], ...] = ()) -> Any:
        return self.start(function, *args).end(*tolerate)

    def comes_to(self, gate: Gate, function: str, *args: Any) -> bool:
        """Whether the function gets that far, rather than returning or giving up before."""
        call = self.start(function, *args)
        wait_for(lambda: gate.reached or call.done)
        if not gate.reached:
            call.end(LockTimeout)
        return gate.reached

    def close(self) -> None:
        for call in self._calls:
            call.join()
        self.redis.close()
        self.locks.close()


class Storage:
    """Keeps texts, and refuses a fence that is lower than the highest that it has seen."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._highest = 0

    def keep(self, text: str, fence: int | None) -> None:
        if fence is not None:
            if fence < self._highest:
                raise StaleFence(f"fence {fence} is below {self._highest}")
            self._highest = fence
        self.kept.append(text)

    def reached_by(self, way: Callable[[], object]) -> SimpleNamespace:
        """As one program sees it: whatever it writes or transfers goes that way first."""

        def write(text: str, fence: int | None = None) -> None:
            way()
            self.keep(text, fence)

        return SimpleNamespace(write=write, transfer=write)


class Database(sqlite3.Connection):
    """A connection that can be held up before a statement that begins so, or before it commits."""

    before: Sequence[tuple[str, Callable[[], object]]] = ()

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        for beginning, interrupt in self.before:
            if statement.startswith(beginning):
                interrupt()
        return super().execute(statement, parameters)

    def __exit__(self, *error: Any) -> Any:
        for beginning, interrupt in self.before:
            if beginning == "COMMIT":
                interrupt()
        return super().__exit__(*error)


class World:
    """One scene's surroundings. All that it starts ends with it."""

    def __init__(self, block: str, server: RunningServer, start_server: StartServer, folder: Path) -> None:
        self.block, self.server, self.start_server, self._folder = block, server, start_server, folder
        self._stack = ExitStack()
        self._gates: list[Gate] = []

    def gate(self) -> Gate:
        self._gates.append(Gate())
        return self._gates[-1]

    def program(self, *, url: str | None = None, wait: float = 0, ttl: float = 30, **names: Any) -> Program:
        """`names` are what the block calls and does not define. Without `wait`, its locks do not wait in line."""
        options = {"wait": wait, "ttl": ttl}
        program = Program(self.block, url or self.server.url, options, names)
        self._stack.callback(program.close)
        return program

    def programs(self, count: int, place: str, **options: Any) -> list[tuple[Program, Gate]]:
        """Several programs, each held up at a function of this name."""
        gates = [self.gate() for _ in range(count)]
        return [(self.program(**{place: gate, **options}), gate) for gate in gates]

    def client(self, url: str, **interrupts: Callable[[], object]) -> Client:
        made = client(url, **interrupts)
        self._stack.callback(made.close)
        return made

    def forget(self) -> None:
        """The server's memory is gone, and with it every lock: an empty restart, or all ttls are over."""
        self.server.flushall()

    def keep(self, thing: Any) -> Any:
        """Enters it, and leaves it with the scene."""
        return self._stack.enter_context(thing)

    def database(self, *before: tuple[str, Callable[[], object]], autocommit: bool = True) -> Database:
        """One more connection to this scene's database, a file."""
        made = sqlite3.connect(
            self._folder / "database",
            factory=Database,
            check_same_thread=False,
            timeout=PATIENCE,
            isolation_level=None if autocommit else "DEFERRED",
        )
        made.before = before
        self._stack.callback(made.close)
        return made

    def waiting(self, name: str) -> int:
        """How many stand in line."""
        with Locks(self.server.url) as locks:
            return locks.inspect(name).waiting

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for gate in self._gates:
            gate.open()
        self._stack.close()


Scene: TypeAlias = Callable[[World], bool]
