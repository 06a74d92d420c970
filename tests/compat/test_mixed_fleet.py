"""Old and new locks on one key, with kills: never two inside, and each can wait for the other.

For a few seconds by `make test`; for 30 on each flavour by `make faults`.
"""

from __future__ import annotations

import itertools
import random
import time
from functools import partial
from pathlib import Path

import pytest
import redis

from holdtight.compat.redis_py import Lock
from tests.compat import fleet
from tests.compat.fleet import IN_VAIN, KINDS, LOST, TAKEN, TTL, VIOLATIONS, Board
from tests.support.processes import Child, StartChild, wait_for
from tests.support.servers import FLAVOURS, VALKEY_9, Flavour, RunningServer, StartServer

SHORT, LONG = 4.0, 30.0


@pytest.mark.parametrize(
    ("flavour", "seconds"),
    [(VALKEY_9, SHORT), *(pytest.param(each, LONG, marks=pytest.mark.long) for each in FLAVOURS)],
    ids=repr,
)
def test_a_mixed_fleet_excludes_itself(
    start_server: StartServer, start_child: StartChild, tmp_path: Path, flavour: Flavour, seconds: float
) -> None:
    server = start_server(flavour=flavour)
    board = Board(tmp_path / "board")
    numbers = itertools.count()
    chance = random.Random(5)
    crew: dict[int, tuple[int, Child]] = {}
    end = time.monotonic() + seconds

    def hire(kind: int) -> None:
        number = next(numbers)
        left = str(max(1.0, end - time.monotonic()))
        crew[number] = kind, start_child(fleet.work, str(kind), str(number), server.url, str(tmp_path / "board"), left)

    def kill_one_inside(kind: int) -> None:
        """Kills it while it holds the lock, which is free again when its timeout has passed."""
        number = next(number for number, (found, _) in crew.items() if found == kind)
        wait_for(lambda: board.inside(number), within=15)
        child = crew.pop(number)[1]
        child.kill()
        board.note_death(number)

    for kind in range(len(KINDS)):
        for _ in range(2 if seconds == LONG else 1):
            hire(kind)
    for _, child in crew.values():
        child.expect("working", within=30)
    end = time.monotonic() + seconds
    victims = itertools.cycle(chance.sample(range(len(KINDS)), len(KINDS)))
    kills = 0
    while end - time.monotonic() > 2 * TTL or not kills:
        victim = next(victims)
        kill_one_inside(victim)
        kills += 1
        hire(victim)
        enough = board.total(TAKEN) + 20
        wait_for(partial(_has_taken, board, enough), within=TTL + 20, what="the fleet to go on")
    for _, child in crew.values():
        assert child.wait(seconds + 60) == 0, child.errors
    report = {
        "taken": board.total(TAKEN),
        "kills": kills,
        "lost": board.total(LOST),
        "in vain": board.total(IN_VAIN),
        "changes": [[board.changes(a, b) for b in range(len(KINDS))] for a in range(len(KINDS))],
    }
    print(report)
    assert board.total(VIOLATIONS) == 0, report
    assert board.total(IN_VAIN) == 0, report
    for before, after in itertools.product(range(len(KINDS)), repeat=2):
        if KINDS[before][0] != KINDS[after][0]:
            assert board.changes(before, after) > 0, (KINDS[before], KINDS[after], report)
    assert server.keys() == []
    board.close()


def _has_taken(board: Board, count: int) -> bool:
    return board.total(TAKEN) > count


def test_the_board_sees_a_lock_that_lets_everybody_in(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path
) -> None:
    board = Board(tmp_path / "board")
    team = [
        start_child(fleet.work, "broken", str(number), private_server.url, str(tmp_path / "board"), "2")
        for number in range(3)
    ]
    wait_for(lambda: board.total(VIOLATIONS), within=20)
    for child in team:
        child.kill()
    board.close()


def test_a_holder_that_died_is_waited_for_until_its_time_has_passed(
    private_server: RunningServer, start_child: StartChild
) -> None:
    for maker in ("redis.lock", "holdtight.compat.redis_py"):
        take = "m.Lock(redis.Redis.from_url(args[0]), 'a', timeout=1).acquire()"
        child = start_child(f"import redis, {maker} as m; {take}; say('held'); hear()", private_server.url)
        child.expect("held")
        child.kill()
        started = time.monotonic()
        with Lock(redis.Redis.from_url(private_server.url), "a", timeout=5, sleep=0.01):
            assert time.monotonic() - started < 10
