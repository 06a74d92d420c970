"""The protocol of the quorum, checked by Spin: the runs that take seconds. `make models` does them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import check, runs
from models.runs import RUNS, Expected, Run

QUICK = [run for run in RUNS if run.quick]
PAGE = Path(__file__).parents[2] / "models" / "README.md"


@pytest.fixture
def tools() -> None:
    wanting = check.missing_tools()
    if wanting is not None:
        pytest.skip(wanting)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("run", [run for run in QUICK if run.expected is Expected.HOLDS], ids=lambda run: run.name)
def test_the_protocol_holds(run: Run, tmp_path: Path) -> None:
    outcome = check.check(run, tmp_path)
    assert not outcome.violated, "\n".join(outcome.trace)
    assert outcome.states > 100_000


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("run", [run for run in QUICK if run.expected is Expected.FAILS], ids=lambda run: run.name)
def test_a_protocol_without_one_of_its_rules_is_found_to_fail(run: Run, tmp_path: Path) -> None:
    outcome = check.check(run, tmp_path)
    assert outcome.violated
    assert outcome.trace[0].endswith(("asks all nodes", "ttl 2", "the time is 12"))
    assert outcome.trace[-1].startswith("WRONG: ")
    assert (tmp_path / f"{run.name}.txt").read_text().splitlines()[-1].endswith(outcome.trace[-1])


@pytest.mark.usefixtures("tools")
def test_a_run_that_does_not_end_as_it_must_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = Run("quorum-broken", "quorum", Expected.HOLDS, "no majority", "AVAILABLE_QUORUM LATE=0 RENEWING=0")
    sound = Run("fence-sound", "fence", Expected.FAILS, "nothing is wrong here", "OWNERS=2 PROPOSALS=1")
    monkeypatch.setattr(check, "RUNS", (broken, sound))
    monkeypatch.setattr(check, "BUILD", tmp_path)
    assert check.main([]) == 1
    told = capsys.readouterr().out
    assert "NOT AS EXPECTED: is violated" in told
    assert "NOT AS EXPECTED: was not found to go wrong" in told


@pytest.mark.usefixtures("tools")
def test_a_search_that_ran_out_of_memory_has_shown_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "CHECKER", (*check.CHECKER[:-1], "-DMEMLIM=140"))
    with pytest.raises(check.ModelError, match="not completed"):
        check.check(next(run for run in RUNS if run.name == "quorum-renewing"), tmp_path)


def test_missing_tools_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check.main([]) == 2
    told = capsys.readouterr().err
    assert "needs spin and gcc" in told
    assert "pip cannot bring" in told


def test_every_run_stands_in_the_page_and_every_run_of_the_page_is_there() -> None:
    text = PAGE.read_text()
    names = {run.name for run in RUNS}
    assert len(names) == len(runs.RUNS)
    assert {name for name in names if not name.startswith("reach-") and f"`{name}`" not in text} == set()
    prefixes = ("quorum-", "fence-", "limit-")
    quoted = {word for word in text.split("`")[1::2] if word.startswith(prefixes)}
    assert quoted <= names
