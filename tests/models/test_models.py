"""The protocol of the quorum, checked by Spin. `make test` does what takes seconds, `make models` does it all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from models import check
from models.check import Outcome
from models.runs import RUNS, Expected, Run

PAGE = Path(__file__).parents[2] / "models" / "README.md"


@pytest.fixture
def tools() -> None:
    wanting = check.missing_tools()
    if wanting is not None:
        pytest.skip(wanting)


LONG = {"quorum-short-cut", "quorum-small", "fence-no-guard", "fence-any-proposal", "fence-write-back-unowned"}
"""They keep a processor busy for up to half a minute each."""


def every(*expected: Expected) -> list[ParameterSet]:
    return [
        pytest.param(run, marks=() if run.quick and run.name not in LONG else pytest.mark.long, id=run.name)
        for run in RUNS
        if run.expected in expected
    ]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("run", every(Expected.HOLDS))
def test_the_protocol_holds(run: Run, tmp_path: Path) -> None:
    outcome = check.check(run, tmp_path)
    assert not outcome.violated, "\n".join(outcome.trace)
    assert outcome.states > 100_000


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("run", every(Expected.FAILS, Expected.LIMIT))
def test_without_one_of_its_rules_or_beyond_its_limits_the_protocol_is_found_to_fail(run: Run, tmp_path: Path) -> None:
    outcome = check.check(run, tmp_path)
    assert outcome.violated
    assert outcome.trouble is None
    if run.model == "quorum":
        assert_two_leases(outcome.trace)
    else:
        assert_a_fence_that_does_not_rise(outcome.trace)
    assert (tmp_path / f"{run.name}.txt").read_text().splitlines()[-1].endswith(outcome.trace[-1])


def assert_two_leases(trace: tuple[str, ...]) -> None:
    """Two owners have a lease, and neither has ended it. (Counting may also be the step that makes one valid.)"""
    assert trace[-1] == "WRONG: two leases are believed valid at the same time"
    given = {step[0] for step in trace if step.endswith(": a lease")}
    last_asked = {step[0]: at for at, step in enumerate(trace) if " asks all nodes" in step}
    ended = {step[0] for at, step in enumerate(trace) if " ends: " in step and at > last_asked[step[0]]}
    assert len(given - ended) == 2


def assert_a_fence_that_does_not_rise(trace: tuple[str, ...]) -> None:
    """The fences of the leases, in the order in which they were handed out: all rise but the last."""
    assert trace[-1] == "WRONG: the fence has not risen"
    handed_out = [re.search(r"has a lease with fence (\d+); the largest before it: (\d+)$", step) for step in trace]
    fences = [int(found[1]) for found in handed_out if found]
    assert len(fences) >= 2
    assert fences[:-1] == sorted(set(fences[:-1]))
    assert fences[-1] <= fences[-2]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("run", every(Expected.REACHED))
def test_the_models_get_somewhere(run: Run, tmp_path: Path) -> None:
    outcome = check.check(run, tmp_path)
    assert outcome.violated
    assert outcome.trouble is None


def test_the_quick_runs_have_every_counter_example_that_the_safety_page_speaks_of() -> None:
    quick = {run.name for run in RUNS if run.quick}
    assert quick >= {"quorum-small", "fence-small"}
    assert quick >= {"quorum-available-quorum", "quorum-no-guard"}
    assert quick >= {"quorum-short-cut", "quorum-unmarked", "quorum-unvouched"}
    assert quick >= {"fence-counter-fences", "fence-write-back-unowned", "fence-no-guard"}


@pytest.mark.long
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
    assert "FAILED: 2 not as expected" in told


def test_a_failure_for_another_reason_does_not_count() -> None:
    def ended(expected: Expected, last: str) -> str | None:
        run = Run("fence-any", "fence", expected, "", "")
        return Outcome(run, True, 1, 1, 0.1, 1, frozenset(), ("A asks all nodes", last)).trouble

    assert ended(Expected.FAILS, "WRONG: the fence has not risen") is None
    assert ended(Expected.FAILS, "WRONG: two leases are believed valid at the same time") is not None
    assert ended(Expected.FAILS, "a tick passes") is not None
    assert ended(Expected.REACHED, "a tick passes") is None
    assert ended(Expected.REACHED, "WRONG: the fence has not risen") is not None
    assert ended(Expected.HOLDS, "a tick passes") is not None


@pytest.mark.long
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
    assert len(names) == len(RUNS)
    assert {name for name in names if f"`{name}`" not in text} == set()
    prefixes = ("quorum-", "fence-", "limit-", "reach-")
    quoted = {word for word in text.split("`")[1::2] if word.startswith(prefixes) and "…" not in word}
    assert quoted <= names
