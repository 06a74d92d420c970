"""One variant in a process of its own: reads drills as JSON lines, answers each with one JSON line.

    → {"do": "pairs", "with": {"seconds": 0.5}}
    ← {"result": [24310, 23990, …]}       or {"error": "…"}

Ends when its input does. Runs in a peer's environment, so it needs only the standard library.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, TextIO

from bench import cpus
from bench.drills import Drill
from bench.variants import Variant


def _load(name: str, url: str) -> Variant:
    module = importlib.import_module(f"bench.variants.{name}")
    variant: Variant = module.VARIANT(url)
    return variant


def _drill(name: str) -> Drill:
    """Drills are found by name in `bench.drills.*`: `pairs` or `leases.renewal`."""
    module, _, function = name.rpartition(".")
    found: Drill = getattr(importlib.import_module(f"bench.drills.{module}"), function)
    return found


def _answer(variant: Variant, request: dict[str, Any]) -> object:
    name, arguments = request["do"], request["with"]
    if name == "versions":
        return variant.versions()
    if name == "pin":
        cpus.pin(os.getpid(), arguments["cpus"])
        return None
    return _drill(name)(variant, **arguments)


def serve(variant_name: str, url: str, requests: TextIO, answers: TextIO) -> None:
    def put(answer: dict[str, object]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        variant = _load(variant_name, url)
    except Exception as error:
        put({"error": f"{type(error).__name__}: {error}"})
        return
    for line in requests:
        try:
            put({"result": _answer(variant, json.loads(line))})
        except Exception as error:
            put({"error": f"{type(error).__name__}: {error}"})
    variant.close()


if __name__ == "__main__":
    # What a library prints must not end up among the answers.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.argv[2], sys.stdin, pipe)
