"""Holders that are paused for longer than their lease lasts lose no update behind a guard, and lose some without."""

from __future__ import annotations

import pytest

from tests.fencing.databases import Database
from tests.fencing.pausing import MODES, campaign
from tests.fencing.test_isolation import LEVELS
from tests.support.servers import RunningServer


@pytest.mark.parametrize(("database", "level"), [("mariadb", "REPEATABLE READ")], indirect=["database"])
def test_a_guard_loses_no_update_to_paused_holders(
    private_server: RunningServer, database: Database, level: str
) -> None:
    outcome = campaign(private_server.url, database, level, "guarded", pauses=12)
    assert outcome.lost == 0, outcome
    assert outcome.commits > 12, outcome


@pytest.mark.long
@pytest.mark.parametrize(("database", "level"), LEVELS, indirect=["database"])
@pytest.mark.parametrize("mode", MODES)
def test_only_a_guard_loses_no_update_at_any_isolation_level(
    private_server: RunningServer, database: Database, level: str, mode: str
) -> None:
    outcome = campaign(private_server.url, database, level, mode, pauses=60)
    print(f"\n{database} {level}, {mode}: {outcome}, lost {outcome.lost}")
    assert outcome.lost == 0 if mode == "guarded" else outcome.lost > 0, outcome
