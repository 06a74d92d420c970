import pytest

from bench.stats import jain, median_ratio, percentile, spread


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert percentile([10, 20], 0.5) == 15
    assert percentile([30, 10, 20], 0) == 10
    assert percentile([30, 10, 20], 1) == 30
    assert percentile(range(101), 0.99) == pytest.approx(99)


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7], 0.99) == 7


@pytest.mark.parametrize("share", [-0.1, 1.1, 99])
def test_a_share_outside_zero_to_one_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1, 2], share)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_spread_is_median_tail_and_count() -> None:
    found = spread(list(range(1, 102)))
    assert (found.count, found.p50, found.p99) == (101, 51, 100)


def test_equal_shares_are_perfectly_fair() -> None:
    assert jain([5, 5, 5, 5]) == 1


def test_one_that_takes_everything_scores_one_in_n() -> None:
    assert jain([12, 0, 0, 0]) == 0.25


def test_if_nobody_got_anything_nobody_was_wronged() -> None:
    assert jain([0, 0]) == 1


def test_ratios_are_taken_round_by_round() -> None:
    # The second round was slow for both: the ratio of the medians would be 3.
    assert median_ratio([20, 300, 60], [10, 100, 30]) == 2


def test_rounds_must_pair_up() -> None:
    with pytest.raises(ValueError, match="shorter"):
        median_ratio([1, 2], [1])
    with pytest.raises(ValueError, match="no rounds"):
        median_ratio([], [])
