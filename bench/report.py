"""The record of a run: what was measured, with what, where; as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cpus import cpu_model
from bench.results import Outcome
from bench.rounds import Bench
from bench.targets import Verdict
from bench.worker_process import HOME

QUIET = 0.1  # of the machine's time in use by others: above that, figures are worth little


def surroundings(bench: Bench, *, quick: bool, busy: float | None) -> dict[str, Any]:
    return {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "effort": "quick" if quick else "full",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "server": bench.server.version,
        "cpu": f"{cpu_model()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}",
        "pinning": str(bench.cpus),
        "busy with other things": busy,
        "commit": _commit(),
        "variants": dict(bench.versions),
        "left out": dict(bench.absent),
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HOME, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def headings(facts: Mapping[str, Any], summary: str) -> list[str]:
    """The run in three lines, for the picture and the terminal."""
    packages = {
        name: version
        for versions in facts["variants"].values()
        for name, version in versions.items()
        if name != "holdtight"
    }
    busy = facts["busy with other things"] or 0.0
    if busy > QUIET:
        summary += f"  ·  CAUTION: others used {busy:.0%} of this machine meanwhile"
    place = (facts["server"], facts["python"], facts["cpu"], facts["when"][:10], f"{facts['effort']} run")
    return [
        summary,
        "  ·  ".join(place),
        "  ·  ".join(f"{name} {version}" for name, version in packages.items()) + f"  ·  {facts['pinning']}",
    ]


def record(facts: Mapping[str, Any], verdicts: Sequence[Verdict], outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    return {
        **facts,
        "verdicts": [
            {
                "key": each.target.key,
                "what": each.target.what,
                "target": each.target.show_bound(each.target.target),
                "stretch": each.target.show_bound(each.target.stretch),
                "figure": each.figure,
                "unit": each.target.unit,
                "verdict": str(each),
            }
            for each in verdicts
        ],
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit,
                "better": chart.better.name.lower(),
                "bars": [{"variant": bar.variant, "median": bar.value, "p99": bar.p99} for bar in chart.bars],
            }
            for outcome in outcomes.values()
            for chart in outcome.charts
        ],
        "notes": [note for outcome in outcomes.values() for note in outcome.notes],
        "rounds": {name: outcome.rounds for name, outcome in outcomes.items()},
    }


def write(path: Path, content: Mapping[str, Any], picture: str) -> Path:
    """The JSON and, next to it, the picture; where the picture is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    drawn = path.with_suffix(".svg")
    drawn.write_text(picture, encoding="utf-8")
    print(f"written: {_near(path)} and {_near(drawn)}", file=sys.stderr)
    return drawn


def _near(path: Path) -> str:
    full = path.resolve()
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else str(path)
