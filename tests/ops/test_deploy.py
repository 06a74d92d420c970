"""The alert rules and the dashboard: metrics that exist, each alert firing and silent, each panel at a Prometheus."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from holdtight import Locks, NotOwner, metrics
from holdtight.ops.deploy import FILES, main
from holdtight.ops.instruments import INSTRUMENTS
from tests.ops.counting import Counts
from tests.support.processes import StartChild, popen, wait_for
from tests.support.servers import RunningServer, free_port

CASES = Path(__file__).with_name("rules_test.yml")
ROOT = Path(__file__).parents[2]
ALERTS = {
    "LockLost",
    "ExpirationRate",
    "FailureRatio",
    "RenewMarginLow",
    "WaitP99",
    "HeldTooLong",
    "NodesBelowMajority",
    "ForcedRelease",
    "Degraded",
    "MetricsDropped",
}
RECORDED = "redis_lock_expiration_rate"
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds."""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian package prometheus)")
    return found


# What the files say.


class Rule(NamedTuple):
    kind: str
    name: str
    expr: str
    rest: str


def rules() -> list[Rule]:
    """Read without a YAML library: promtool says whether the file is YAML, this test needs the expressions."""
    blocks = re.split(r"(?m)^      - (?=alert|record)", FILES["rules"].read_text("utf-8"))[1:]
    found: list[Rule] = []
    for block in blocks:
        match = re.fullmatch(
            r"(alert|record): (\w+)\n        expr: (?:\|\n)?(.*?)\n(?=\S|        for:|\Z|\n)(.*)", block, re.DOTALL
        )
        assert match, block
        found.append(Rule(*match.groups()))
    return found


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILES["dashboard"].read_text("utf-8"))
    return loaded


def panel_expressions() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"]]


def labels_of(metric: str) -> set[str] | None:
    """The labels of a series; None if holdtight makes no such series."""
    if metric == RECORDED:
        return {"job", "lock", "kind"}
    for each in INSTRUMENTS:
        if each.type == "histogram":
            if metric in (each.name + "_count", each.name + "_sum"):
                return SCRAPED | set(each.labels)
            if metric == each.name + "_bucket":
                return SCRAPED | set(each.labels) | {"le"}
        elif metric == each.name:
            return SCRAPED | set(each.labels)
    return None


def wrong_in(expr: str) -> list[str]:
    """Metrics that holdtight does not have, and labels that the metrics of this expression do not have."""
    wrong: list[str] = []
    common: set[str] | None = None
    for metric, matchers in re.findall(r"\b(redis_\w+)(?:\{(.*?)\})?", expr):
        labels = labels_of(metric)
        if labels is None:
            wrong.append(metric)
            continue
        wrong += [f"{metric}: {used}" for used in re.findall(r"(\w+)\s*[=!]", matchers) if used not in labels]
        common = labels if common is None else common & labels
    assert common is not None or wrong, f"no metric in {expr}"
    for grouped in re.findall(r"\bby \((.*?)\)", expr):
        wrong += [used for used in grouped.split(", ") if used not in (common or set())]
    return wrong


def test_the_reading_of_expressions_finds_what_is_wrong() -> None:
    assert wrong_in('sum by (lock) (redis_lock_held{job=~"$job"})') == []
    assert wrong_in("redis_lock_helt") == ["redis_lock_helt"]
    assert wrong_in('redis_lock_held{reason!="x"}') == ["redis_lock_held: reason"]
    assert wrong_in("sum by (reason) (redis_lock_held)") == ["reason"]
    assert wrong_in("rate(redis_lock_acquire_wait_seconds[5m])") == ["redis_lock_acquire_wait_seconds"]


def test_the_rules_are_those_of_the_contract_and_use_metrics_that_exist() -> None:
    found = rules()
    assert [each.name for each in found if each.kind == "record"] == [RECORDED]
    names = [each.name for each in found if each.kind == "alert"]
    assert (len(names), set(names)) == (len(ALERTS), ALERTS)
    assert {each.name: wrong_in(each.expr) for each in found} == {each.name: [] for each in found}


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for each in rules():
        if each.kind == "record":
            continue
        assert re.search(r"^        for: \d+m$", each.rest, re.MULTILINE), each.name
        assert re.search(r"^          severity: (critical|warning|info)$", each.rest, re.MULTILINE), each.name
        assert re.search(r"^          summary: \".+\"$", each.rest, re.MULTILINE), each.name
        assert re.search(r"^          description: >-\n            \S", each.rest, re.MULTILINE), each.name
        shown = set(re.findall(r"\$labels\.(\w+)", each.rest))
        kept = set(", ".join(re.findall(r"\bby \((.*?)\)", each.expr)).split(", "))
        if RECORDED in each.expr:
            kept = {"job", "lock", "kind"}
        assert shown <= kept - {"le"}, each.name


def test_the_dashboard_has_its_panels_and_uses_metrics_that_exist() -> None:
    board = dashboard()
    assert [panel["title"] for panel in board["panels"]] == [
        "Held and waiting",
        "Acquired and failed per second",
        "Wait, p50 and p99",
        "Hold, p99 and oldest",
        "Leases lost",
        "Expired per second",
        "Renew margin, p10 and p50",
        "Nodes",
        "Degraded and forced",
    ]
    assert [each["name"] for each in board["templating"]["list"]] == ["datasource", "job", "lock"]
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in board["panels"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for title, expr in panel_expressions():
        assert wrong_in(expr) == [], title
        assert 'job=~"$job"' in expr, title
    for each in board["templating"]["list"][1:]:
        of, label = re.fullmatch(r"label_values\((.*), (\w+)\)", each["query"]["query"]).groups()  # type: ignore[union-attr]
        assert wrong_in(f"sum by ({label}) ({of})") == [], each["name"]


@pytest.mark.parametrize("which", ["rules", "dashboard"])
def test_the_module_prints_them(which: str, start_child: StartChild) -> None:
    code = "import runpy, sys; sys.argv[1:] = args; runpy.run_module('holdtight.metrics', run_name='__main__')"
    child = start_child(code, which)
    assert child.lines() == FILES[which].read_text("utf-8").splitlines()
    assert child.wait() == 0


def test_there_is_nothing_else_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["graphs"])
    assert ended.value.code == 2
    assert "rules" in capsys.readouterr().err


def test_the_files_that_the_compose_file_mounts_are_there() -> None:
    """Docker makes a folder where a file is missing, and says nothing."""
    folder = ROOT / "deploy"
    mounted = re.findall(r"^ +- (\.\.?/[^:]+):(\S+):ro$", (folder / "compose.yml").read_text("utf-8"), re.MULTILINE)
    assert len(mounted) == 5
    assert [path for path, _ in mounted if not (folder / path).is_file()] == []
    assert {folder / path for path, _ in mounted} >= {folder / ".." / path.relative_to(ROOT) for path in FILES.values()}
    (provided,) = re.findall(r"path: (\S+)", (folder / "grafana" / "dashboards.yml").read_text("utf-8"))
    assert provided + "/holdtight.json" in {target for _, target in mounted}


# promtool.


def test_promtool_accepts_the_rules_and_the_configuration(tmp_path: Path) -> None:
    promtool = program("promtool")
    shutil.copy(FILES["rules"], tmp_path / "rules.yml")
    shutil.copy(ROOT / "deploy" / "prometheus.yml", tmp_path)
    for what, file in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run([promtool, "check", what, tmp_path / file], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_and_is_silent_when_it_should_be() -> None:
    named = re.findall(r"^  - name: (\w+) (fires|is silent)", CASES.read_text("utf-8"), re.MULTILINE)
    assert set(named) == {(alert, does) for alert in ALERTS for does in ("fires", "is silent")}
    done = subprocess.run([program("promtool"), "test", "rules", CASES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# Prometheus.


class Prometheus:
    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._base}/-/ready", timeout=10) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **query: str) -> Any:
        """An error of a query is an answer with status 400, which raises."""
        with urllib.request.urlopen(f"{self._base}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as reply:
            answer = json.load(reply)
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, expr: str) -> list[float]:
        """Of all series of the answer that are numbers."""
        found = [float(each["value"][1]) for each in self.ask("query", query=expr)["result"]]
        return [value for value in found if not math.isnan(value)]


@contextmanager
def serving(registry: CollectorRegistry) -> Iterator[int]:
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus(folder: Path, scraped: int) -> Iterator[Prometheus]:
    binary, port = program("prometheus"), free_port()
    shutil.copy(FILES["rules"], folder / "rules.yml")
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: web, static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
    )
    with (folder / "log").open("wb") as log:
        process = popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        asked = Prometheus(port)
        wait_for(lambda: asked.ready() or process.poll() is not None, what="Prometheus to be ready")
        assert process.poll() is None, (folder / "log").read_text()
        yield asked
    finally:
        process.terminate()
        process.wait(30)


def pair_with_a_renewal(locks: Locks, counts: Counts) -> None:
    before = counts("renewals_total", result="renewed", lock="order")
    with locks.lock("order:1", ttl=3):
        assert locks.lock("order:1").try_acquire() is None
        wait_for(lambda: counts("renewals_total", result="renewed", lock="order") > before)


def test_every_panel_shows_what_a_prometheus_has_scraped(private_server: RunningServer, tmp_path: Path) -> None:
    program("prometheus")
    registry = CollectorRegistry()
    counts = Counts(registry)
    away = f"redis://127.0.0.1:{free_port()}"
    with (
        Locks(private_server.url) as locks,
        Locks(away, on_unavailable="local", connect_timeout=0.2) as degraded,
        serving(registry) as port,
        prometheus(tmp_path, port) as asked,
    ):
        for each in (locks, degraded):
            metrics.install(each, registry=registry, label_of=lambda name: name.partition(":")[0])

        pair_with_a_renewal(locks, counts)
        wait_for(lambda: asked.values("redis_lock_hold_duration_seconds_count") == [1], what="a scrape after the pair")
        pair_with_a_renewal(locks, counts)  # rates need growth from one scrape to another
        with degraded.lock("order:2"):
            pass
        forced = locks.lock("order:3", ttl=20).acquire()
        locks.force_release("order:3", reason="hangs")
        with pytest.raises(NotOwner):
            forced.release()
        ended = locks.lock("order:4", ttl=0.3, renew=False).acquire()
        assert ended.wait_lost(20)
        with locks.lock("order:4", wait=20), locks.lock("order:5", ttl=20):
            private_server.stop()
        metrics.flush()

        shown = {expr: _without_variables(expr) for _, expr in panel_expressions()}
        for expr, query in shown.items():
            wait_for(lambda query=query: asked.values(query), what=f"data for {expr}")  # type: ignore[misc]
        # Each is asked until it is so: after a scrape that took too long, Prometheus shows nothing until the next.
        assert counts("acquire_success_total", lock="order") == 6
        wait_for(lambda: asked.values("sum(redis_lock_acquire_success_total)") == [6], what="the same figure as here")
        wait_for(lambda: asked.values("sum by (lock) (redis_lock_lost_total)") == [2], what="two losses")
        wait_for(lambda: asked.values("min by (node) (redis_node_health)") == [0, 0], what="two nodes down")
        for name in ("job", "lock"):
            assert asked.ask(f"label/{name}/values", **{"match[]": "redis_lock_acquire_success_total"})
        fired = {"LockLost", "ForcedRelease", "Degraded"}
        late = {"NodesBelowMajority"}  # fires too, if this test takes more than a minute
        wait_for(lambda: _firing(asked) - late == fired, what=f"{fired} and nothing else to fire")


def _without_variables(expr: str) -> str:
    """As Grafana replaces them: all jobs, one lock, a rate over more than four scrapes."""
    for variable, value in {"$__rate_interval": "1m", "$job": ".*", "$lock": "order"}.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr


def _firing(asked: Prometheus) -> set[str]:
    firing: set[str] = set()
    for group in asked.ask("rules")["groups"]:
        for rule in group["rules"]:
            assert not rule.get("lastError"), rule
            if rule.get("state") == "firing":
                firing.add(rule["name"])
    return firing
