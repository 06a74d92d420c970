from pathlib import Path

from bench.drills.wanted import CHANGES, VIOLATIONS, Board


def test_taking_again_is_no_change_of_owner(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 3, create=True)
    for me in (1, 1, 2, 1):
        board.enter(me)
        board.leave(me)
    assert board.get(CHANGES) == 3
    assert board.counts() == [3, 1, 0]
    assert board.get(VIOLATIONS) == 0
    board.close()


def test_two_inside_at_once_is_seen_by_all_that_have_the_board(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 2, create=True)
    other = Board(tmp_path / "board", 2)
    board.enter(1)
    other.enter(2)
    board.leave(1)
    assert board.get(VIOLATIONS) == other.get(VIOLATIONS) == 2
    board.close()
    other.close()
