"""`holdtight serve` as a process: hang-ups, signals, two instances, slow clients, and settings that cannot be."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdtight import Locks
from holdtight.server.tokens import add_token
from tests.service.instances import Instance, instance, token_file
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


def waiting(server: RunningServer, name: str) -> int:
    with Locks(server.url) as locks:
        return locks.inspect(name).waiting


def in_background(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except httpx.HTTPError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def connect(one: Instance) -> socket.socket:
    url = httpx.URL(one.url)
    return socket.create_connection((url.host, url.port or 80), timeout=30)


def request(one: Instance, verb: str, token: str, **body: Any) -> bytes:
    raw = json.dumps(body).encode()
    return (
        b"POST /v1/%b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        % (verb.encode(), token.encode(), len(raw), raw)
    )


def test_who_hangs_up_leaves_the_line_and_who_is_told_to_go_keeps_its_place(
    server: RunningServer, tmp_path: Path
) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        held = one.post("acquire", token, name="a", ttl=60).json()
        with connect(one) as wire:
            wire.sendall(request(one, "acquire", token, name="a", ttl=60, wait=40, request="hangs up"))
            wait_for(lambda: waiting(server, "a") == 1, within=10)
        wait_for(lambda: waiting(server, "a") == 0, within=10)
        with instance(server.url, tmp_path, "--tokens", str(path)) as two:
            ask: dict[str, Any] = {"name": "a", "ttl": 60, "wait": 40, "request": "r"}
            thread, found = in_background(lambda: one.post("acquire", token, **ask))
            wait_for(lambda: waiting(server, "a") == 1, within=10)
            behind, last = in_background(
                lambda: two.post("acquire", token, name="a", ttl=60, wait=40, request="behind")
            )
            wait_for(lambda: waiting(server, "a") == 2, within=10)
            begun = time.monotonic()
            one.signal(signal.SIGTERM)
            assert one.process.wait(10) == 0
            assert time.monotonic() - begun < 5
            thread.join()
            assert (found[0].status_code, found[0].json()["code"]) == (503, "SHUTTING_DOWN")
            thread, found = in_background(lambda: two.post("acquire", token, **ask))
            time.sleep(0.2)
            assert two.post("release", token, lease=held["lease"]).status_code == 200
            thread.join()
            first = found[0].json()
            assert first["fence"] > held["fence"]
            two.post("release", token, lease=first["lease"])
            behind.join()
            assert last[0].json()["fence"] > first["fence"]


def test_a_session_outlives_the_instance_that_opened_it(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    options = ("--tokens", str(path))
    with instance(server.url, tmp_path, *options) as one, instance(server.url, tmp_path, *options) as two:
        session = one.post("session/open", token).json()["session"]
        held = one.post("acquire", token, name="a", session=session, request="r").json()
        thread, found = in_background(lambda: one.post("acquire", token, name="a", ttl=30, wait=40, request="waits"))
        wait_for(lambda: waiting(server, "a") == 1, within=10)
        one.signal(signal.SIGKILL)
        thread.join()
        assert isinstance(found[0], httpx.HTTPError)
        beat = two.post("session/beat", token, session=session).json()
        assert [each["fence"] for each in beat["leases"]] == [held["fence"]]
        assert two.post("acquire", token, name="a", session=session, request="r").json()["fence"] == held["fence"]
        thread, found = in_background(lambda: two.post("acquire", token, name="a", ttl=30, wait=40, request="waits"))
        wait_for(lambda: waiting(server, "a") == 1, within=10)
        assert two.post("session/close", token, session=session).json() == {"released": 1}
        thread.join()
        assert found[0].status_code == 200


def test_tokens_are_read_anew_and_a_broken_file_changes_nothing(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "admin")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        other = add_token(path, "other", "read", ())
        assert one.get("/v1/me", other).status_code == 401
        one.signal(signal.SIGHUP)
        wait_for(lambda: one.get("/v1/me", other).status_code == 200, within=10)
        path.write_text("broken [", "utf-8")
        one.signal(signal.SIGHUP)
        wait_for(lambda: "the old tokens stay" in one.log(), within=10)
        assert one.get("/v1/me", token).status_code == 200
        log = one.log()
        assert token not in log
        assert other not in log


def test_the_log_names_routes_and_no_secret(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "admin")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        session = one.post("session/open", token).json()["session"]
        held = one.post("acquire", token, name="secret-name", session=session, request="r").json()
        one.get("/v1/lock", token, name="secret-name")
        one.get("/v1/nonsense/ht_not", token)
        one.post("release", token, lease=held["lease"])
        lines = [json.loads(line) for line in one.log().splitlines()]
        assert {"/v1/lock", "/v1/acquire", "other"} <= {each.get("route") for each in lines}
        for secret in (token, session, held["lease"], "secret-name", "ht_not"):
            assert secret not in one.log()


def test_events_come_as_they_happen_and_a_reader_resumes_where_it_was(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    headers = {"authorization": f"Bearer {token}"}
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        first = ""
        with httpx.stream("GET", f"{one.url}/v1/events", headers=headers, timeout=30) as events:
            lines = events.iter_lines()
            next(lines)
            one.post("acquire", token, name="a", ttl=30)
            for line in lines:
                if line.startswith("id: "):
                    first = line[4:]
                if line == "event: granted":
                    assert json.loads(next(lines)[6:])["name"] == "a"
                    break
        one.post("acquire", token, name="b", ttl=30)
        again = headers | {"last-event-id": first}
        only = {"only": "granted"}
        with httpx.stream("GET", f"{one.url}/v1/events", headers=again, params=only, timeout=30) as events:
            data = next(line for line in events.iter_lines() if line.startswith("data: "))
            assert json.loads(data[6:])["name"] == "b"
        wait_for(lambda: "holdtight_streams 0" in one.get("/metrics", token).text, within=10)


def test_a_head_that_is_too_large_is_refused(server: RunningServer, tmp_path: Path) -> None:
    path, _ = token_file(tmp_path, "read")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        with connect(one) as wire:
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\n")
            try:
                for at in range(200):
                    wire.sendall(b"x-%d: %b\r\n" % (at, b"x" * 1000))
            except OSError:
                pass
            assert wire.recv(1000).startswith(b"HTTP/1.1 431")
        assert one.get("/healthz").status_code == 200


@pytest.mark.long
def test_slow_clients_are_cut_off(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one, connect(one) as head, connect(one) as body:
        with connect(one) as silent:
            whole = request(one, "acquire", token, name="a", ttl=30)
            begun = time.monotonic()
            head.sendall(whole[:20])
            body.sendall(whole[:-5])
            assert silent.recv(1000).startswith(b"HTTP/1.1 408")
            assert head.recv(1000).startswith(b"HTTP/1.1 408")
            assert body.recv(1000)[:12] in (b"", b"HTTP/1.1 408")
            assert 9 < time.monotonic() - begun < 60
        assert one.get("/healthz").status_code == 200


def refused(*options: str) -> str:
    command = [sys.executable, "-c", "from holdtight.cli import main; main()", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 64, done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_settings_that_cannot_be_end_it_with_one_sentence(server: RunningServer, tmp_path: Path) -> None:
    from holdtight.cli.main import run_cli

    broken, config = tmp_path / "broken.toml", tmp_path / "config.toml"
    broken.write_text("[", "utf-8")
    broken.chmod(0o600)
    config.write_text("surprise = 1\n", "utf-8")
    url = ("--url", server.url)
    assert "--tokens" in refused(*url, "--bind", "0.0.0.0:0")
    for options in (
        (*url, "--bind", "nonsense"),
        (*url, "--tokens", str(broken)),
        (*url, "--tokens", str(tmp_path / "none.toml")),
        (*url, "--config", str(config)),
        (*url, "--tls-cert", "x"),
        (*url, *url, *url),
    ):
        assert run_cli(["serve", *options]) == 64, options


def test_a_config_file_counts_less_than_flags_and_it_starts_without_its_lock_server(
    server: RunningServer, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('bind = "127.0.0.1:1"\nopen = true\n', "utf-8")
    with instance("redis://127.0.0.1:1", tmp_path, "--config", str(config)) as one:
        assert one.get("/healthz").status_code == 200
        assert one.get("/readyz").status_code == 503
        answer = one.post("acquire", "any", name="a", ttl=30)
        assert (answer.status_code, answer.json()["code"]) == (503, "CONNECTION_LOST")
        assert answer.headers["retry-after"] == "1"
        assert "127.0.0.1:1" not in answer.text
