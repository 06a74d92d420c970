"""Malformed requests give only 4xx: nothing leaks, nothing dies, and no lock is lost."""

from __future__ import annotations

import asyncio
import json
import random
import string
from typing import Any

import pytest

from holdtight.server import bodies
from holdtight.server.looks import LOOKS
from holdtight.server.verbs import VERBS
from tests.service.calling import Caller, caller

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
