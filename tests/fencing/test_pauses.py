"""Holders that are paused for longer than their lease lasts lose no update behind a guard, and lose some without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fencing.databases import Database
from tests.fencing.pausing import MODES, Crew
from tests.fencing.test_isolation import LEVELS
from tests.support.servers import VALKEY_9, start


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with start(VALKEY_9) as server, Crew(server.url) as crew:
        yield crew


USUAL = [("sqlite", "deferred"), ("postgresql", "READ COMMITTED"), ("mariadb", "REPEATABLE READ")]


@pytest.mark.parametrize(("database", "level"), USUAL, indirect=["database"])
def test_paused_holders_lose_updates_with_a_lock_alone_and_none_behind_a_guard(
    crew: Crew, database: Database, level: str
) -> None:
    """The level that each database has if nobody chooses another. A check at the write, which seldom loses, is played
    in test_isolation.py, step by step."""
    unfenced = (crew.play(database, level, "unfenced", pauses=6) for _ in range(10))
    assert any(outcome.lost > 0 for outcome in unfenced)
    outcome = crew.play(database, level, "guarded", pauses=12)
    assert outcome.lost == 0, outcome
    assert outcome.commits > 12, outcome


@pytest.mark.long
@pytest.mark.parametrize(("database", "level"), LEVELS, indirect=["database"])
@pytest.mark.parametrize("mode", MODES)
def test_only_a_guard_loses_no_update_at_any_isolation_level(
    crew: Crew, database: Database, level: str, mode: str
) -> None:
    outcomes = [crew.play(database, level, mode, pauses=60)]
    # A check at the write loses about one update in twenty pauses, at times none in sixty.
    while mode != "guarded" and not outcomes[-1].lost and len(outcomes) < 5:
        outcomes.append(crew.play(database, level, mode, pauses=60))
    lost = sum(outcome.lost for outcome in outcomes)
    print(f"\n{database} {level}, {mode}: {outcomes}, lost {lost}")
    assert lost == 0 if mode == "guarded" else lost > 0, outcomes
