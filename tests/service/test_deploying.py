"""How operators run the service: behind nginx, under systemd, in containers, with TLS of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from holdtight.cli.serve import serve
from holdtight.server.tokens import add_token
from tests.service.instances import PATIENCE, Instance, in_background, instance, token_file, waiting
from tests.support.certificates import Certificates, make_certificates
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer, free_port

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "service"
one_server = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def configuration(folder: Path, server: str) -> Path:
    """A whole configuration of nginx around a server's, for a process that leaves nothing behind."""
    path = folder / "nginx.conf"
    kept = "".join(
        f"{word}_temp_path {folder}/{word};\n" for word in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
        f"events {{ worker_connections 1000; }}\nhttp {{\naccess_log off;\n{kept}\n{server}\n}}\n",
        "utf-8",
    )
    return path


class Front:
    """nginx, and a client of it."""

    def __init__(self, url: str, ca: str) -> None:
        self.url = url
        self.client = httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False, timeout=PATIENCE)

    def post(self, verb: str, token: str, /, *, timeout: float = PATIENCE, **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        return self.client.post(f"{self.url}/v1/{verb}", json=body, headers=headers, timeout=timeout)


@contextmanager
def nginx(folder: Path, certificates: Certificates, *instances: Instance) -> Iterator[Front]:
    text = (FILES / "nginx.conf").read_text("utf-8")
    port = free_port()
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/holdtight/tls.crt", certificates.server_cert),
        ("/etc/holdtight/tls.key", certificates.server_key),
        ("127.0.0.1:7379", instances[0].url.removeprefix("http://")),
        ("127.0.0.1:7380", instances[1].url.removeprefix("http://")),
    ):
        assert old in text
        text = text.replace(old, new)
    process = subprocess.Popen([program("nginx"), "-e", str(folder / "error.log"), "-c", configuration(folder, text)])
    front = Front(f"https://127.0.0.1:{port}", certificates.ca)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                front.client.get(f"{front.url}/healthz")
                break
            except httpx.ConnectError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
        yield front
    finally:
        front.client.close()
        process.terminate()
        process.wait(10)


@one_server
def test_long_polls_streams_and_logins_pass_through_nginx(server: RunningServer, tmp_path: Path) -> None:
    program("nginx")
    path, (token,) = token_file(tmp_path, "admin")
    options = ("--tokens", str(path), "--trust-proxy", "127.0.0.1")
    certificates = make_certificates(tmp_path)
    with (
        instance(server.url, tmp_path, *options) as one,
        instance(server.url, tmp_path, *options) as two,
        nginx(tmp_path, certificates, one, two) as front,
    ):
        held = front.post("acquire", token, name="a", ttl=60, request="first").json()
        with (
            Front(front.url, certificates.ca).client as reader,
            reader.stream(
                "GET",
                f"{front.url}/v1/events",
                params={"only": "released"},
                headers={"authorization": f"Bearer {token}"},
            ) as events,
        ):
            lines = events.iter_lines()
            assert next(lines)  # the head of the stream comes at once: nothing is buffered
            poll, found = in_background(
                lambda: front.post("acquire", token, name="a", ttl=60, wait=45, request="second", timeout=60)
            )
            wait_for(lambda: waiting(server, "a") == 1, within=20)
            assert front.post("release", token, lease=held["lease"]).status_code == 200
            poll.join()
            assert found[0].json()["fence"] > held["fence"]
            data = next(line for line in lines if line.startswith("data: "))
            assert json.loads(data[6:])["name"] == "a"

        # Who hangs up leaves the line, also behind a proxy.
        with pytest.raises(httpx.ReadTimeout):
            front.post("acquire", token, name="a", ttl=60, wait=45, request="third", timeout=1)
        wait_for(lambda: waiting(server, "a") == 0, within=20)

        # The client's own address, and its https, are believed of this proxy.
        login = front.client.post(f"{front.url}/login", json={"token": token}, headers={"origin": front.url})
        assert login.status_code == 204, login.text
        assert login.headers["set-cookie"].startswith("__Host-holdtight=")
        assert front.client.get(f"{front.url}/v1/me").json()["token"] == "admin"
        assert front.client.get(f"{front.url}/metrics").status_code == 403  # nginx keeps it

        # An instance is gone: the other one serves everybody, and the session, too.
        session = front.post("session/open", token).json()["session"]
        mine = front.post("acquire", token, name="b", session=session, request="r").json()
        one.signal(signal.SIGKILL)
        answers = [front.post("session/beat", token, session=session) for _ in range(6)]
        # nginx answers 502 once for a request that it had sent: only its client knows that it may be repeated.
        assert [each.status_code for each in answers if each.status_code != 502][-4:] == [200] * 4
        assert [each["fence"] for each in answers[-1].json()["leases"]] == [mine["fence"]]


@one_server
def test_forwarded_headers_are_believed_of_the_named_proxy_only(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "admin")
    for trusted, shown in (("127.0.0.1", "203.0.113.9"), ("192.0.2.1", "127.0.0.1"), ("", "127.0.0.1")):
        options = ("--trust-proxy", trusted) if trusted else ()
        with instance(server.url, tmp_path, "--tokens", str(path), *options) as one:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": "203.0.113.9"}
            one.client.get(f"{one.url}/v1/me", headers=headers)
            wait_for(lambda one=one: "/v1/me" in one.log(), within=10)  # type: ignore[misc]
            line = next(json.loads(line) for line in one.log().splitlines() if "/v1/me" in line)
            assert line["address"] == shown


@one_server
def test_it_serves_https_by_itself(server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "read")
    made = make_certificates(tmp_path)
    tls = ("--tls-cert", made.server_cert, "--tls-key", made.server_key)
    with instance(server.url, tmp_path, "--tokens", str(path), *tls) as one:
        assert one.url.startswith("https://")
        with httpx.Client(verify=ssl.create_default_context(cafile=made.ca), trust_env=False) as client:
            done = client.post(f"{one.url}/login", json={"token": token})
            assert done.headers["set-cookie"].startswith("__Host-holdtight=")
            assert client.get(f"{one.url}/v1/me").json()["token"] == "read"
            plain = done.headers["set-cookie"].split(";")[0].removeprefix("__Host-")
        with httpx.Client(verify=ssl.create_default_context(cafile=made.ca), trust_env=False) as client:
            # A name that a neighbour in the domain could set does not count.
            assert client.get(f"{one.url}/v1/me", headers={"cookie": plain}).status_code == 401


def test_systemd_accepts_the_unit() -> None:
    analyze = program("systemd-analyze")
    unit = FILES / "holdtight.service"
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "holdtight.service" in done.stderr) == (0, False), done.stderr
    text = unit.read_text("utf-8")
    assert "LoadCredential" not in text  # systemd 252 reads a credential once: a reload would get the old tokens
    assert "Environment=HOLDTIGHT_SERVE_TOKENS=/etc/holdtight/tokens.toml\n" in text


def test_adding_a_token_leaves_the_file_readable_for_the_service(tmp_path: Path) -> None:
    path, _ = token_file(tmp_path, "lock")
    path.chmod(0o640)
    own = path.stat().st_uid
    if os.geteuid() == 0:
        os.chown(path, own := 12345, 12345)
    add_token(path, "two", "read", ())
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (own, 0o640)


def test_the_files_for_containers_fit_together(tmp_path: Path) -> None:
    compose = yaml.safe_load((FILES / "compose.yml").read_text("utf-8"))
    services = compose["services"]
    assert services.keys() == {"valkey", "one", "two", "nginx"}
    container = (FILES / "Containerfile").read_text("utf-8")
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", container, re.MULTILINE)[0]) == ["holdtight", "serve"]
    assert re.search(r"^USER [1-9]", container, re.MULTILINE)
    for word in ("one", "two"):  # the folder: a file that is mounted stays the old one when it is replaced
        assert [each.split(":")[1:] for each in services[word]["volumes"]] == [["/etc/holdtight", "ro"]]
    commands = [json.loads(re.findall(r"^CMD (.*)$", container, re.MULTILINE)[0])]
    for word in ("one", "two"):
        assert (FILES / services[word]["build"]["context"] / services[word]["build"]["dockerfile"]).is_file()
        assert services[word]["read_only"] is True
        commands.append(services[word]["command"])
    for command in commands:  # options that `holdtight serve` has
        parsed, rest, _ = serve.make_parser(click.Context(serve, help_option_names=["-h", "--help"])).parse_args(
            list(command)
        )
        assert (rest, parsed["bind"], parsed["tokens"]) == ([], "0.0.0.0:7379", "/etc/holdtight/tokens.toml")
    front = compose["configs"]["nginx"]["content"].replace("$$", "$").replace("one:", "127.0.0.1:")
    path = configuration(tmp_path, front.replace("two:", "127.0.0.1:"))
    check = [program("nginx"), "-e", str(tmp_path / "error.log"), "-t", "-c", str(path)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
