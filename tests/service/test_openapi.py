"""The OpenAPI document, held against a running instance by schemathesis: no answer that it does not describe."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.instances import instance, token_file
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")
CONFIG = Path(__file__).with_name("schemathesis.toml")


def play(server: RunningServer, folder: Path, examples: int, seed: int) -> None:
    path, (token,) = token_file(folder, "admin")
    with instance(server.url, folder, "--tokens", str(path)) as one:
        kept = one.post("acquire", token, name="kept", ttl=3600, request="r").json()
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
        command += [f"{one.url}/v1/openapi.json", "--header", f"Authorization: Bearer {token}", "--seed", str(seed)]
        command += ["--phases", "coverage,fuzzing", "--max-examples", str(examples), "--continue-on-failure"]
        command += ["--request-timeout", "60", "--exclude-path", "/v1/events", "--no-color"]  # a stream does not end
        env = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1800, check=False)
        report = "\n".join(line[:300] for line in done.stdout.splitlines())
        assert done.returncode == 0, f"{report}\n{done.stderr}"
        cases = int(re.findall(r"(\d+) generated", report)[0])
        assert cases > 20 * examples, report
        again = one.post("acquire", token, name="kept", ttl=3600, request="r").json()
        forced = one.get("/v1/audit", token, name="kept").json()["records"]  # it has read the name somewhere
        assert again["fence"] == kept["fence"] or forced, again
        assert '"error"' not in one.log()


def test_every_answer_is_described(server: RunningServer, tmp_path: Path) -> None:
    play(server, tmp_path, 4, 1)


@pytest.mark.long
def test_every_answer_is_described_whatever_is_asked(server: RunningServer, tmp_path: Path) -> None:
    play(server, tmp_path, 200, random.randrange(1 << 30))
