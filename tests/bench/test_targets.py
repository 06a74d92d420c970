import pytest

from bench.__main__ import judge
from bench.results import Outcome
from bench.rows import RUN
from bench.targets import ROWS, TARGETS, Better, Standing, Target, Verdict

FASTER = Target("a", "a", "faster", Better.HIGHER, 1.4, 1.6, "×")
SMALLER = Target("b", "b", "smaller", Better.LOWER, 10, 0, "bytes", 1)


@pytest.mark.parametrize(
    ("target", "figure", "standing"),
    [
        (FASTER, 1.3, Standing.MISSED),
        (FASTER, 1.4, Standing.PASS),
        (FASTER, 1.6, Standing.STRETCH),
        (SMALLER, 10.5, Standing.MISSED),
        (SMALLER, 10, Standing.PASS),
        (SMALLER, -3, Standing.STRETCH),
        (SMALLER, None, Standing.NOT_MEASURED),
    ],
)
def test_a_bound_itself_counts_as_met(target: Target, figure: float | None, standing: Standing) -> None:
    assert Verdict(target, figure).standing is standing


def test_a_ratio_is_missed_by_a_percentage() -> None:
    assert str(Verdict(FASTER, 1.26)) == "MISSED by 10.0%"


def test_a_bound_near_zero_is_missed_by_an_amount() -> None:
    assert str(Verdict(SMALLER, 12.5)) == "MISSED by 2.5 bytes"


def test_without_a_stretch_there_is_nothing_beyond_a_pass() -> None:
    target = Target("c", "c", "no stretch", Better.HIGHER, 0.8, None, "×")
    assert Verdict(target, 5).standing is Standing.PASS
    assert target.show_bound(target.stretch) == "–"


def test_every_row_can_be_run_and_every_target_has_a_row() -> None:
    assert set(RUN) == set(ROWS)
    assert len({target.key for target in TARGETS}) == len(TARGETS)


def test_only_the_rows_asked_for_are_judged() -> None:
    outcome = Outcome(figures={"import.sync": 20.0}, missing={"import.async": "no module"})
    sync, with_async = judge(["import"], {"import": outcome})
    assert (sync.figure, sync.standing) == (20.0, Standing.PASS)
    assert (with_async.standing, with_async.why_not) == (Standing.NOT_MEASURED, "no module")
