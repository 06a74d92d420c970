"""The record of a run: what was measured, with what, where; as JSON. Records of several runs join into one."""

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

from bench import table
from bench.cpus import cpu_model
from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median
from bench.targets import TARGETS, Better, Verdict
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
    """HEAD, and whether the tree differs from it. A tag is no commit, so none is named."""
    described = ["git", "describe", "--always", "--dirty= (dirty)", "--exclude=*", "--abbrev=12"]
    done = subprocess.run(described, cwd=HOME, capture_output=True, text=True, check=False)
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
        "summary": table.summary(verdicts),
        "verdicts": [
            {
                "key": each.target.key,
                "what": each.target.what,
                "target": each.target.show_bound(each.target.target),
                "stretch": each.target.show_bound(each.target.stretch),
                "figure": each.figure,
                "unit": each.target.unit,
                "verdict": str(each),
                "why not": each.why_not,
            }
            for each in verdicts
        ],
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit,
                "better": chart.better.name.lower(),
                "bars": [
                    {"variant": bar.variant, "median": bar.value, "p99": bar.p99, "ours": bar.ours}
                    for bar in chart.bars
                ],
            }
            for outcome in outcomes.values()
            for chart in outcome.charts
        ],
        "notes": [note for outcome in outcomes.values() for note in outcome.notes],
        "rounds": {name: outcome.rounds for name, outcome in outcomes.items()},
    }


def joined(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One record of several runs. Of a target that several of them judged the figure is the median, and `runs` has the
    figures of all; the charts of a row are those of the first run that measured it."""
    for same in ("effort", "server", "python", "cpu", "commit"):
        if len({record[same] for record in records}) > 1:
            raise ValueError(f"these runs differ in {same}: {', '.join(str(record[same]) for record in records)}")
    found: dict[str, list[Any]] = {}
    charts: dict[str, Any] = {}
    rounds: dict[str, Any] = {}
    for record in records:
        for each in record["verdicts"]:
            found.setdefault(each["key"], []).append(each)
        for chart in record["charts"]:
            charts.setdefault(chart["title"], chart)
        rounds = {**record["rounds"], **rounds}
    verdicts = [_of_runs(found[target.key]) for target in TARGETS if target.key in found]
    busy = [record["busy with other things"] for record in records]
    return {
        **records[0],
        "when": " and ".join(record["when"] for record in records),
        "busy with other things": max(filter(None, busy), default=None),
        "variants": {name: each for record in records for name, each in record["variants"].items()},
        "left out": {name: why for record in records for name, why in record["left out"].items()},
        "summary": table.summary(verdicts_of({"verdicts": verdicts})),
        "verdicts": verdicts,
        "charts": list(charts.values()),
        "notes": list(dict.fromkeys(note for record in records for note in record["notes"])),
        "rounds": rounds,
    }


def _of_runs(judged: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    figures = [each["figure"] for each in judged if each["figure"] is not None]
    return {**judged[0], "figure": median(figures), "runs": figures} if len(figures) > 1 else judged[0]


def verdicts_of(record: Mapping[str, Any]) -> list[Verdict]:
    """Judged by today's targets. A figure whose target is gone is left out."""
    known = {target.key: target for target in TARGETS}
    return [
        Verdict(known[each["key"]], each["figure"], each["why not"])
        for each in record["verdicts"]
        if each["key"] in known
    ]


def charts_of(record: Mapping[str, Any]) -> list[Chart]:
    return [
        Chart(
            chart["title"],
            chart["unit"],
            Better[chart["better"].upper()],
            tuple(Bar(bar["variant"], bar["median"], bar["p99"], bar["ours"]) for bar in chart["bars"]),
        )
        for chart in record["charts"]
    ]


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
