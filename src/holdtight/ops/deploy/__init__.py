"""Alert rules for Prometheus and a dashboard for Grafana: `python -m holdtight.metrics rules|dashboard` prints them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

__all__ = ["FILES", "main"]

_HERE = Path(__file__).parent
FILES = {"rules": _HERE / "rules.yml", "dashboard": _HERE / "dashboard.json"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m holdtight.metrics", description="Prints what monitoring loads.")
    parser.add_argument("file", choices=FILES, help="alert rules for Prometheus, or a dashboard for Grafana")
    print(FILES[parser.parse_args(arguments).file].read_text("utf-8"), end="")
