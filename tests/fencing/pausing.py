"""Six processes under one lock, each of them paused in the middle of its work for about as long as its lease lasts.

Each adds one to a counter, over and over: it reads, works for a moment, writes. A process stops itself (SIGSTOP) at a
random step, and the test lets it go on after 120 to 300 ms; the lease lasts 150 ms. An update is lost if the counter is
below the number of commits that succeeded.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from typing import Any, NamedTuple, Self

import psycopg
import pymysql  # type: ignore[import-untyped]

from holdtight import LeaseLost, Locks, LockTimeout, StaleFence
from holdtight.fencing import SqlGuard
from tests.fencing.databases import Database, MariaDB, Postgres, Sqlite, execute
from tests.support.processes import Child, spawn

__all__ = ["MODES", "Crew", "Outcome", "work"]

WORKERS = 6
TTL = 0.15
PAUSES = (0.12, 0.3)
CHANCE = 0.15
"""That a turn is paused."""
MODES = ("unfenced", "checked at the write", "guarded")
CLASSES: dict[str, type[Database]] = {"sqlite": Sqlite, "postgresql": Postgres, "mariadb": MariaDB}
REFUSED = (LeaseLost, StaleFence, psycopg.OperationalError, pymysql.err.OperationalError, sqlite3.OperationalError)
"""How a turn may end without a commit: also serialization failures and deadlocks."""


class Outcome(NamedTuple):
    commits: int
    counter: int
    pauses: int
    refused: int

    @property
    def lost(self) -> int:
        return self.commits - self.counter


class Worker:
    """What one process does with one database."""

    def __init__(self, locks: Locks, kind: str, folder: str, level: str, mode: str, pauses: int) -> None:
        self.locks, self.mode, self.guard = locks, mode, SqlGuard()
        self.database = CLASSES[kind].at(folder)
        self.level, self.connection = level, self.database.connect(level)
        self.pauses, self.commits, self.refused = pauses, 0, 0

    def run(self) -> None:
        while self.pauses:
            at = random.choice(["lock", "read", "write"]) if random.random() < CHANCE else ""
            try:
                with self.locks.lock("counter", wait=30) as lease:
                    self.pause(at == "lock")
                    getattr(self, self.mode.partition(" ")[0])(lease, at)
                    self.commits += 1
            except REFUSED as error:
                if not isinstance(error, LeaseLost):  # LeaseLost also comes after a commit
                    self.refused += 1
                self.again()
            except LockTimeout:
                pass
        self.connection.close()
        print("done", self.commits, self.refused, flush=True)

    def again(self) -> None:
        try:
            self.connection.rollback()
        except REFUSED:
            self.connection = self.database.connect(self.level)

    def pause(self, really: bool) -> None:
        if really:
            self.pauses -= 1
            print("pause", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)

    def add(self, at: str, *, between: Any = None) -> None:
        [[value]] = execute(self.connection, "SELECT units FROM stock WHERE id = 1")
        if self.mode != "guarded":
            self.connection.commit()
        self.pause(at == "read")
        time.sleep(0.005)
        if between is not None:
            between()
        execute(self.connection, "UPDATE stock SET units = ? WHERE id = 1", value + 1)
        self.pause(at == "write")

    def unfenced(self, lease: Any, at: str) -> None:
        self.add(at)
        self.connection.commit()

    def checked(self, lease: Any, at: str) -> None:
        """Raises the fence with the write, in one transaction, and refuses if a higher one is there."""

        def check() -> None:
            sql = "UPDATE holdtight_fence SET fence = ? WHERE name = 'counter' AND fence <= ?"
            execute(self.connection, sql, lease.fence, lease.fence)
            [[seen]] = execute(self.connection, "SELECT fence FROM holdtight_fence WHERE name = 'counter'")
            if seen != lease.fence:
                raise StaleFence.below("counter", lease.fence, seen)

        self.add(at, between=check)
        self.connection.commit()

    def guarded(self, lease: Any, at: str) -> None:
        """In a transaction of `under`, which looks at the lease before it commits, or in one that only claims."""
        if random.random() < 0.5:
            with self.guard.under(lease, self.connection):
                self.add(at)
        else:
            self.guard.claim(self.connection, lease)
            self.add(at)
            self.connection.commit()


def work(url: str) -> None:
    """Plays what each line says."""
    with Locks(url, ttl=TTL) as locks:
        for line in sys.stdin:
            Worker(locks, *json.loads(line)).run()


class Crew:
    """Six processes that work on one database after another."""

    def __init__(self, url: str) -> None:
        self._children = [spawn(work, url) for _ in range(WORKERS)]

    def play(self, database: Database, level: str, mode: str, pauses: int) -> Outcome:
        """With so many pauses in all."""
        database.execute("UPDATE stock SET units = 0")
        database.execute("DELETE FROM holdtight_fence")
        if mode.startswith("checked"):
            database.execute("INSERT INTO holdtight_fence VALUES ('counter', 0, 0)")
        each = -(-pauses // WORKERS)
        results: list[tuple[int, int]] = []
        order = json.dumps([database.name, str(database.folder), level, mode, each])
        threads = [threading.Thread(target=_attend, args=(child, order, results)) for child in self._children]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == WORKERS
        commits, refused = (sum(numbers) for numbers in zip(*results, strict=True))
        [[counter]] = database.execute("SELECT units FROM stock WHERE id = 1")
        return Outcome(commits, int(counter), WORKERS * each, refused)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._children:
            child.close()


def _attend(child: Child, order: str, results: list[tuple[int, int]]) -> None:
    """Lets the child go on whenever it has stopped itself, until it is done."""
    child.send(order)
    while (line := child.wait_line(within=120)) == "pause":
        state = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert state is not None
        time.sleep(random.uniform(*PAUSES))
        child.resume()
    _, commits, refused = line.split()
    results.append((int(commits), int(refused)))
