"""A signal at any line of `holdtight run`: the lock is given back at once, not by its ttl."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdtight import Locks
from tests.support.processes import HEAR_SIGNALS, Child
from tests.support.servers import RunningServer

PROGRAM = Path(__file__).parent / "signalled.py"
Signalled = Callable[[int, Sequence[str]], Child]


@pytest.fixture
def signalled(server: RunningServer) -> Iterator[Signalled]:
    """`holdtight WORD…`, with a SIGTERM at that moment."""
    with ExitStack() as stack:
        code = (
            f"{HEAR_SIGNALS}import runpy, sys; sys.argv[0] = ''; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
        )

        def begin(at: int, words: Sequence[str]) -> Child:
            env = {"PYTHONPATH": ":".join(sys.path), "HOLDTIGHT_URL": server.url}
            return stack.enter_context(Child([sys.executable, "-P", "-c", code, str(at), *words], env))

        yield begin


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long, id="all"), pytest.param(23, id="some")])
@pytest.mark.parametrize("record", [(), ("--at-least", "1h")], ids=["plain", "recorded"])
def test_a_signal_at_any_line_leaves_no_lock_behind(
    signalled: Signalled, locks: Locks, tmp_path: Path, record: Sequence[str], every: int
) -> None:
    def words(at: int) -> Sequence[str]:
        return ("run", f"nightly-{at}", "--ttl", "60s", *record, "--", "touch", str(tmp_path / str(at)))

    whole = signalled(0, words(0))
    assert whole.wait() == 0, whole.errors
    counted = re.search(r"moments: (\d+)", whole.errors)
    assert counted is not None, whole.errors
    moments = int(counted[1])
    assert moments > 50
    ends = list[int]()
    for at in range(1, moments + 1, every):
        run = signalled(at, words(at))
        end, begun = run.wait(), (tmp_path / str(at)).exists()
        ends.append(end)
        # The signal reaches `run` before the command starts, the command, or `run` after the command has ended.
        assert end in (-signal.SIGTERM, 128 + signal.SIGTERM) or (begun and end == 0), run.errors
        assert "Traceback" not in run.errors, run.errors
        seen = locks.inspect(f"nightly-{at}")
        assert not seen.holders, f"still held after a signal at moment {at} of {moments}"
        assert not seen.waiting
        if record and end == -signal.SIGTERM and not begun:  # nothing was started, so nothing is recorded
            assert signalled(0, words(at)).wait() == 0
    assert {-signal.SIGTERM} < set(ends), "some signals came while the command ran, or right after"
