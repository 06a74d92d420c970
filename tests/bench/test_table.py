from bench import table
from bench.results import Bar, Chart, Outcome
from bench.targets import Better, Target, Verdict

PAIR = Target("pair", "pair", "sync pair vs floor", Better.LOWER, 1.3, 1.15, "×")


def test_columns_line_up_and_numbers_are_flush_right() -> None:
    assert table.columns([("name", "n"), ("a", "1"), ("long name", "1,000")], right=frozenset({1})) == [
        "name           n",
        "─────────  ─────",
        "a              1",
        "long name  1,000",
    ]


def test_no_rows_are_no_lines() -> None:
    assert table.columns([]) == []


def test_a_verdict_has_target_stretch_and_figure() -> None:
    line = table.verdicts([Verdict(PAIR, 1.43)])[-1]
    assert line.split("  ") == ["sync pair vs floor", "≤ 1.30×", "≤ 1.15×", " 1.43×", "MISSED by 10.0%"]


def test_colour_touches_the_verdict_only() -> None:
    plain = table.verdicts([Verdict(PAIR, 1.2)])[-1]
    coloured = table.verdicts([Verdict(PAIR, 1.2)], colour=True)[-1]
    assert coloured == plain.removesuffix("pass") + "\x1b[32mpass\x1b[0m"


def test_the_best_of_several_is_marked_by_the_sense_of_the_chart() -> None:
    bars = (Bar("holdtight", 30.0, 55.5), Bar("redis_py", 105.0))
    low = table.side_by_side([Chart("pair", "µs", Better.LOWER, bars)])
    high = table.side_by_side([Chart("rate", "/s", Better.HIGHER, bars)])
    assert [line.endswith("best") for line in low[2:]] == [True, False]
    assert [line.endswith("best") for line in high[2:]] == [False, True]
    assert "redis-py" in low[3]
    assert "55.5" in low[2]


def test_figures_keep_about_three_digits() -> None:
    assert [table.figure(value) for value in (0.1234, 1.234, 12.34, 123.4, 12345.6)] == [
        "0.123",
        "1.23",
        "12.3",
        "123",
        "12,346",
    ]


def test_the_summary_counts_what_was_met() -> None:
    found = [Verdict(PAIR, 1.1), Verdict(PAIR, 1.2), Verdict(PAIR, 2.0), Verdict(PAIR, None)]
    assert table.summary(found) == "2 of 3 targets met, 1 of them at stretch; 1 not measured"
    assert table.summary(found[:1]) == "1 of 1 targets met, 1 of them at stretch"


def test_rounds_that_disagree_are_told() -> None:
    outcome = Outcome()
    outcome.compare("steady", [20, 22, 21], [10, 10, 10])
    outcome.compare("unsteady", [20, 80, 21], [10, 10, 10])
    assert outcome.figures == {"steady": 2.1, "unsteady": 2.1}
    assert outcome.notes == ["unsteady is unsteady: 2.00 to 8.00 in 3 rounds"]


def test_a_round_in_which_the_peer_stood_still_is_no_victory() -> None:
    outcome = Outcome()
    outcome.compare("hot", [700, 710], [0, 300])
    assert outcome.figures == {}
    assert "nothing done" in outcome.missing["hot"]
