"""Malformed requests give only 4xx: nothing leaks, nothing dies, and no lock is lost."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import string
from pathlib import Path
from typing import Any

import pytest

from holdtight.server import bodies
from holdtight.server.looks import LOOKS
from holdtight.server.verbs import VERBS
from tests.service.calling import Caller, caller
from tests.service.instances import connect, instance, token_file
from tests.support.servers import FLAVOURS, RunningServer

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**53, 2**64, -(2**63), 1e308, 0.1, "", " ", "a", "\x00", "\ud83d\ude00", "x" * 600),
    *(
        "30s",
        "1h",
        "-5s",
        "nan",
        "inf",
        [],
        {},
        [1],
        {"a": 1},
        "htl_",
        "hts_",
        "ht1.",
        "ht1.W10",
        "../..",
        "%00",
        "<b>",
    ),
]


def value(chance: random.Random, valid: list[Any]) -> Any:
    if chance.random() < 0.4:
        return chance.choice(valid)
    if chance.random() < 0.8:
        return chance.choice(ODD)
    return "".join(chance.choice(string.printable) for _ in range(chance.randint(0, 40)))


def body(chance: random.Random, kind: type[bodies.Body], valid: dict[str, list[Any]]) -> bytes:
    members = {name: value(chance, valid.get(name, [1])) for name in kind.__struct_fields__ if chance.random() < 0.7}
    if chance.random() < 0.1:
        members["surprise"] = 1
    text = json.dumps(members).encode()
    if chance.random() < 0.1:
        cut = chance.randint(0, len(text))
        text = text[:cut] + bytes(chance.randrange(256) for _ in range(chance.randint(0, 5))) + text[cut + 1 :]
    return text


async def campaign(one: Caller, number: int, seed: int) -> None:
    chance = random.Random(seed)
    kept = await one.post("acquire", name="kept", ttl=600)
    session = await one.session(ttl=600)
    valid: dict[str, list[Any]] = {
        "name": ["a", "b:1", "kept"],
        "session": [session],
        "ttl": [30, "5s", None],
        "kind": ["exclusive", "shared", "permits"],
        "lease": [(await one.post("acquire", name="other", ttl=30))["lease"]],
        "wait": [0, 0.01],
        "request": ["r"],
        "id": ["0" * 16],
        "reason": ["why"],
        "owner": ["0" * 12],
        "text": ["ht1.W10"],
        "stay": [True, False],
        "holding": [[]],
    }
    for at in range(number):
        if chance.random() < 0.75:
            word = chance.choice([each for each in VERBS if not each.startswith("force")])
            raw = body(chance, VERBS[word][0], valid)
            answer = await one.client.post(f"/v1/{word}", content=raw, headers={"content-type": "application/json"})
        else:
            word = chance.choice(list(LOOKS))
            names = [*LOOKS[word][2], "surprise"]
            odd = {name: str(value(chance, ["a", "1", "0"])) for name in names if chance.random() < 0.5}
            params = {name: text.encode(errors="replace").decode() for name, text in odd.items()}
            params.pop("wait", None)
            raw = repr(params).encode()
            answer = await one.client.get(f"/v1/{word}", params=params)
        assert answer.status_code < 500, (seed, at, word, raw, answer.text)
        if answer.status_code >= 400:
            problem = answer.json()
            assert {"type", "title", "status", "code", "detail"} <= problem.keys()
            assert "Traceback" not in answer.text
            assert "File " not in answer.text
    shown = await one.get("lock", name="kept")
    assert [each["fence"] for each in shown["holders"]] == [kept["fence"]]


def run(number: int, seed: int) -> None:
    async def main() -> None:
        async with caller(f"memory://fuzz-{number}") as one:
            await campaign(one, number, seed)

    asyncio.run(main())


def test_malformed_requests_are_refused() -> None:
    run(600, 7)


@pytest.mark.long
def test_five_thousand_malformed_requests_are_refused() -> None:
    run(5000, random.randrange(1 << 30))


def raw_requests(chance: random.Random, token: str, number: int) -> list[bytes]:
    """Requests of HTTP, most of which are broken: lines, headers, lengths, chunks, bytes."""
    found: list[bytes] = []
    body = b'{"name": "a", "ttl": 30}'
    whole = (
        b"POST /v1/acquire HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (token.encode(), len(body), body)
    )
    odd = [b"\r\n\r\n", b"\x00", b"\xff" * 9, b"%2e%2e/", b"?a=%zz", b"x" * 5000, b"{" * 500]
    odd += [b"content-length: -1\r\n", b"content-length: 1e9\r\n", b"transfer-encoding: chunked\r\n"]
    odd += [b"expect: 100-continue\r\n", b"upgrade: websocket\r\n"]
    for _ in range(number):
        text = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            match chance.randrange(4):
                case 0:
                    text[at] = chance.randrange(256)
                case 1:
                    text[at:at] = chance.choice(odd)
                case 2:
                    del text[at : at + chance.randint(1, 30)]
                case _:
                    lines = text.split(b"\r\n")
                    lines.insert(chance.randrange(1, len(lines)), bytearray(chance.choice(odd).strip() or b":"))
                    text = bytearray(b"\r\n".join(lines))
        found.append(bytes(text))
    return found


def attack(server: RunningServer, folder: Path, number: int, seed: int) -> None:
    """Each request on a connection of its own, which ends with it."""
    path, (token,) = token_file(folder, "admin")
    with instance(server.url, folder, "--tokens", str(path)) as one:
        kept = one.post("acquire", token, name="kept", ttl=600).json()
        for at, text in enumerate(raw_requests(random.Random(seed), token, number)):
            with connect(one) as wire:
                try:
                    wire.sendall(text)
                    wire.shutdown(socket.SHUT_WR)
                    answer = wire.makefile("rb").read()
                except OSError:
                    continue  # it was refused before all was sent
            for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer):
                assert int(status) < 500, (seed, at, text, answer)
            assert b"Traceback" not in answer
        assert one.process.poll() is None
        assert one.post("renew", token, lease=kept["lease"]).json()["fence"] == kept["fence"]
        log = one.log()
        assert "Traceback" not in log, log
        assert token not in log


real = pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session")


@real
def test_a_real_instance_survives_malformed_requests(server: RunningServer, tmp_path: Path) -> None:
    attack(server, tmp_path, 300, 11)


@real
@pytest.mark.long
def test_a_real_instance_survives_five_thousand_malformed_requests(server: RunningServer, tmp_path: Path) -> None:
    attack(server, tmp_path, 5000, random.randrange(1 << 30))
