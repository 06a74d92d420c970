"""docs/recipes/gunicorn.md: gunicorn loads the application before it forks its workers."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.docs.recipes.page import PATIENCE, Run, commands, unpack
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, free_port


def test_a_client_from_before_the_fork_works_in_every_worker(
    tmp_path: Path, private_server: RunningServer, run: Run
) -> None:
    port, (words,) = free_port(), commands("gunicorn")
    assert "--preload" in words
    run(
        unpack("gunicorn", tmp_path),
        ["-m", *words, "--bind", f"127.0.0.1:{port}", "--no-control-socket"],
        HOLDTIGHT_URL=private_server.url,
    )

    def ask(_: object = None) -> tuple[int, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            value, _, pid = answer.read().decode().split()
            return int(value), pid

    def answered() -> bool:
        try:
            ask()
        except OSError:
            return False
        return True

    wait_for(answered, within=PATIENCE, what="gunicorn")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(200)))
    assert sorted(value for value, _ in answers) == list(range(2, 202))  # the first was to see that it is there
    assert len({pid for _, pid in answers}) > 1
