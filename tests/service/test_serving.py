"""`holdtight serve` as a process: hang-ups, signals, two instances, slow clients, and settings that cannot be."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdtight.server.tokens import add_token
from tests.service.instances import connect, in_background, instance, request, token_file, waiting
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer, free_port

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


def read_answers(wire: socket.socket, number: int) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    with wire.makefile("rb") as lines:
        while len(found) < number:
            status, size = int(lines.readline().split()[1]), 0
            while (line := lines.readline().strip().lower()) != b"":
                size = int(line.split(b":")[1]) if line.startswith(b"content-length:") else size
            found.append((status, json.loads(lines.read(size))))
        assert number == 1 or lines.peek() == b""  # nothing is left, or the last answer has closed the connection
    return found


OURS = ("x-content-type-options", "x-request-id")


def test_requests_in_one_packet_or_in_many_are_answered_in_order(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        names = [f"in a row {at}" for at in range(4)]
        row = [request(one, "acquire", token, name=name, ttl=30, request="r") for name in names]
        with connect(one) as wire:
            last = row[-1].replace(b"\r\nhost:", b"\r\nconnection: close\r\nhost:")
            wire.sendall(b"".join([*row[:-1], last]))
            answers = read_answers(wire, 4)
        assert [(status, answer["name"]) for status, answer in answers] == [(200, name) for name in names]
        whole = one.post("acquire", token, name="headers", ttl=30).headers
        assert set(whole) == {"date", "content-type", "content-length", "cache-control", *OURS}
        assert whole["content-type"] == "application/json"
        with connect(one) as wire:
            head, _, body = row[0].partition(b"\r\n\r\n")
            for part in (head[:30], head[30:] + b"\r\n\r\n", body[:5], body[5:]):
                wire.sendall(part)
                time.sleep(0.02)
            assert read_answers(wire, 1) == [(200, {**answers[0][1], "valid": ANY, "waited": ANY})]


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
        text = one.post("detach", token, lease=held["lease"]).json()["text"]
        one.post("adopt", token, text=text, ttl=30)
        one.post("adopt", token, text=text + "x", ttl=30)
        one.post("release", token, lease=held["lease"])
        done = one.client.post(f"{one.url}/login", json={"token": token})
        cookie = done.headers["set-cookie"].partition("=")[2].partition(";")[0]
        csrf = one.client.get(f"{one.url}/v1/me").json()["csrf"]
        one.client.post(f"{one.url}/logout", json={}, headers={"x-csrf-token": csrf})
        wait_for(lambda: "/logout" in one.log(), within=10)
        lines = [json.loads(line) for line in one.log().splitlines()]
        assert {"/v1/lock", "/v1/acquire", "other"} <= {each.get("route") for each in lines}
        for secret in (token, session, held["lease"], text, cookie, csrf, "secret-name", "ht_not"):
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


def test_what_is_no_request_is_answered_as_everything_else(server: RunningServer, tmp_path: Path) -> None:
    path, _ = token_file(tmp_path, "read")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        for nonsense in (
            b"nonsense\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"\x00" * 100,
        ):
            with connect(one) as wire:
                wire.sendall(nonsense)
                head, _, body = wire.makefile("rb").read().partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 400")
                for header in (
                    b"content-type: application/problem+json",
                    b"cache-control: no-store",
                    b"x-request-id: ",
                ):
                    assert header in head.lower()
                assert json.loads(body)["code"] == "BAD_REQUEST"
        assert one.get("/healthz").status_code == 200


def test_streams_end_with_the_instance_and_ticks_say_what_changed(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    headers = {"authorization": f"Bearer {token}"}
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        with httpx.stream("GET", f"{one.url}/v1/events?name=a", headers=headers, timeout=30) as events:
            lines = events.iter_lines()

            def following(kind: str) -> Any:
                assert any(line == f"event: {kind}" for line in lines)
                return json.loads(next(lines)[6:])

            assert following("changed")["leader"] is None
            held = one.post("acquire", token, name="a", ttl=30, label="me").json()
            changed = following("changed")
            assert (changed["fence"], changed["leader"]["label"]) == (held["fence"], "me")
            assert following("tick")["held"] == 1
            one.signal(signal.SIGTERM)
            assert list(lines) is not None  # it ends, and the client is not cut off
        assert one.process.wait(10) == 0


def test_instances_share_a_port(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    bind = f"127.0.0.1:{free_port()}"
    options = ("--tokens", str(path), "--bind", bind, "--reuse-port")
    with instance(server.url, tmp_path, *options) as one, instance(server.url, tmp_path, *options) as two:
        for at in range(20):
            with httpx.Client(trust_env=False) as client:
                client.get(f"http://{bind}/v1/me", headers={"authorization": f"Bearer {token}"})
            assert at < 19
            if "/v1/me" in one.log() and "/v1/me" in two.log():
                break


def test_the_environment_counts_more_than_a_file_and_less_than_flags(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    config = tmp_path / "serve.toml"
    config.write_text('tokens = "/nowhere"\nbind = "127.0.0.1:1"\n', "utf-8")
    monkeypatch.setenv("HOLDTIGHT_SERVE_TOKENS", str(path))
    monkeypatch.setenv("HOLDTIGHT_SERVE_BIND", "nonsense")
    with instance(server.url, tmp_path, "--config", str(config), "--bind", "127.0.0.1:0") as one:
        assert one.get("/v1/me", token).json()["token"] == "lock"


def test_metrics_are_the_services_and_the_librarys(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "admin")
    with instance(server.url, tmp_path, "--tokens", str(path)) as one:
        one.post("acquire", token, name="a", ttl=30)
        one.post("force-release", token, name="a", reason="a test")
        one.get("/v1/locks", token)
        text = one.get("/metrics", token).text
        names = {each.name for each in text_string_to_metric_families(text)}
        assert {
            "holdtight_http_requests",
            "holdtight_http_request_seconds",
            "holdtight_waiting_requests",
            "holdtight_streams",
            "holdtight_survey_seconds",
            "redis_lock_forced_release",
        } <= names
        assert 'holdtight_http_requests_total{route="/v1/acquire",status="200"} 1' in text


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
    good, _ = token_file(tmp_path, "read")
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
        (*url, "--tls-cert", "/nowhere", "--tls-key", "/nowhere"),
        (*url, "--tls-cert", str(broken), "--tls-key", str(broken)),
        (*url, "--bind", "no.such.host.invalid:0", "--tokens", str(good)),
        (*url, *url, *url),
        *[(*url, "--tokens", str(good), "--trust-proxy", each) for each in ("nginx", "10.0.0.300", "10.0.0.1/8", "")],
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


def test_the_log_has_no_names_and_few_lines_while_the_lock_server_is_away(
    server: RunningServer, tmp_path: Path
) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance("redis://127.0.0.1:1", tmp_path, "--tokens", str(path)) as one:
        for at in range(5):
            assert one.post("acquire", token, name=f"secret-name-{at}", ttl=30).status_code == 503
        wait_for(lambda: one.log().count("/v1/acquire") == 5, within=10)
        assert "secret-name" not in one.log()
        assert one.log().count("CONNECTION_LOST: the lock server failed") == 1
