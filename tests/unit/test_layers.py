"""Imports only go down: the packages are the layers. No module imports from a higher one, or from the other colour.

Every import counts, also one inside a function, one for type checkers only, and one whose module is named by a text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import holdtight

ROOT = Path(holdtight.__file__).parent
LAYERS = (
    ("errors", "events", "base"),
    ("config", "embedded"),
    ("stores",),
    ("core",),
    ("keeper",),
    ("grants",),
    ("clients",),
    ("recipes",),
    ("sync", "aio"),
    ("compat",),
    ("ops",),
    ("", "explain", "fencing", "history", "metrics", "testing", "tracing", "tuning"),
    ("contrib", "server"),
    ("cli",),
    ("__main__",),
)
"""Lowest first. The empty name is the package itself, `holdtight/__init__.py`."""
COLOURS = {"sync", "aio"}
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


class Import(NamedTuple):
    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported} (line {self.line})"


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Dotted names below `holdtight`."""
    found = dict[str, Path]()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, source: str, known: dict[str, Path]) -> Iterator[Import]:
    tree = ast.parse(source)
    before = prefixes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import in line {node.lineno}"
            module = node.module or ""
            if module.partition(".")[0] != "holdtight":
                yield Import(name, module, node.lineno)
                continue
            below = module.partition(".")[2]
            for alias in node.names:
                inner = f"{below}.{alias.name}".lstrip(".")
                yield Import(name, "holdtight." + (inner if inner in known else below), node.lineno)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, alias.name, node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for prefix in before:
                module = prefix + node.value
                if module.startswith("holdtight.") and module.partition(".")[2] in known:
                    yield Import(name, module, node.lineno)


def prefixes(tree: ast.AST) -> set[str]:
    """What `import_module` puts before the texts of this module: nothing, and the beginnings of its f-strings."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [call.args[0] for call in calls if ast.unparse(call.func).endswith("import_module") and call.args]
    parts = [each.values[0] for each in given if isinstance(each, ast.JoinedStr)]
    return {"", *(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))}


def ours() -> list[Import]:
    known = modules()
    return [each for name, path in known.items() for each in imports_of(name, path.read_text("utf-8"), known)]


def package(name: str) -> str:
    return name.partition(".")[0]


def is_upward(each: Import) -> bool:
    if package(each.imported) != "holdtight":
        return False
    above, below = package(each.importer), package(each.imported.partition(".")[2])
    if above == below:
        return False
    if {above, below} == COLOURS:
        return True
    return LEVEL[below] > LEVEL[above]


def test_every_package_has_a_layer() -> None:
    assert {package(name) for name in modules()} == LEVEL.keys()


def test_imports_only_go_down() -> None:
    assert [str(each) for each in ours() if is_upward(each)] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("core.contend", "from holdtight.keeper import keeper"),
        ("sync.lock", "def f():\n    from holdtight.aio.lock import AsyncLock"),
        ("base.values", "if TYPE_CHECKING:\n    import holdtight.stores.redis.keys"),
        ("embedded.shared", "from holdtight.stores import boundary"),
        ("config.url", "from holdtight import Locks"),
        ("clients.loading", 'MODULES = ("json", "holdtight.sync.lock")'),
        ("stores.opening", 'import_module(f"holdtight.{LATER[name]}")\nLATER = {"Keeper": "keeper.keeper"}'),
    ],
)
def test_an_import_that_goes_up_is_seen(name: str, source: str) -> None:
    assert [each for each in imports_of(name, source, modules()) if is_upward(each)]


# The store boundary: Redis stays below it.

CONNECTIONS = {
    "aio.broadcast",
    "aio.connection",
    "aio.driver",
    "aio.looking",
    "aio.memory_connection",
    "aio.quorum_driver",
    "aio.transport",
    "keeper.connection",
    "keeper.recording",
    "sync.driver",
    "sync.looking",
    "sync.node_connection",
    "sync.node_group",
    "sync.pool",
    "sync.quorum_driver",
}
"""They carry requests and parse replies."""
QUORUM = {
    "aio.quorum_lock",
    "clients.quorum_lock",
    "clients.quorum_verbs",
    "grants.quorum_tenure",
    "sync.quorum_lock",
}
"""A quorum is a protocol between Redis servers: these modules send its votes and read the raw replies."""
CLUSTER = {
    "aio.cluster",
    "aio.cluster_connection",
    "clients.cluster_doctor",
    "clients.cluster_verbs",
    "clients.routing",
    "sync.cluster",
}
"""They find the server of a slot, and follow redirections."""
OTHERS = {
    "compat.access",
    "compat.aio",
    "compat.base",
    "compat.plans",
    "compat.sync",
    "compat.unsigning",
    "fencing.redis",
    "testing.losing",
    "testing.plugin",
}
"""What is made for Redis alone: the drop-in for redis-py, the guard of data in Redis, and what users' tests need."""


def knows_redis(each: Import) -> bool:
    if package(each.importer) == "stores":
        return False
    return package(each.imported) == "hiredis" or each.imported.startswith("holdtight.stores.redis")


def test_nothing_above_the_stores_knows_redis_but_the_modules_that_are_named() -> None:
    assert {each.importer for each in ours() if knows_redis(each)} == CONNECTIONS | QUORUM | CLUSTER | OTHERS


def test_a_module_that_knows_redis_is_seen() -> None:
    lazy = "def f():\n    from holdtight.stores.redis.store import Store"
    assert [each for each in imports_of("clients.client", lazy, modules()) if knows_redis(each)]
    assert [each for each in imports_of("core.quorum", "import hiredis", modules()) if knows_redis(each)]


# What differs between places is asked of the place. Its topology only chooses modules.

CHOOSING = {"aio.backend", "clients.verbs", "sync.backend"}


def reads_topology(source: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "topology" and isinstance(node.ctx, ast.Load)
        for node in ast.walk(ast.parse(source))
    )


def test_the_topology_of_a_place_only_chooses_modules() -> None:
    assert {name for name, path in modules().items() if reads_topology(path.read_text("utf-8"))} == CHOOSING


def test_a_module_that_compares_topologies_is_seen() -> None:
    assert reads_topology('def f(place):\n    return 1 if place.topology != "quorum" else 2')
    assert not reads_topology('class ClusterPlace(Place):\n    topology = "cluster"')


# The layers above the stores see verdicts: no codes, bytes or error words of Redis.

SEE_VERDICTS = {"core", "keeper", "grants", "clients", "recipes", "sync", "aio"}
CODED = {"answer", "first", "reply", "said"}
"""The names that code gives to what a server answered."""
ERROR_WORD = re.compile(r"\b(NOPERM|NOSCRIPT|WRONGTYPE|NOAUTH|OOM|LOADING|BUSY|READONLY|MOVED|ASK|\w*DOWN)\b")


def raw_replies(source: str) -> Iterator[str]:
    """Comparisons of an answer with a number, and constants with error words or cursors."""
    tree = ast.parse(source)
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id in CODED:
            if any(isinstance(each, ast.Constant) and type(each.value) is int for each in node.comparators):
                yield ast.unparse(node)
        elif not isinstance(node, ast.Constant) or node in documentation:
            continue
        elif node.value == b"0" or (isinstance(node.value, str) and ERROR_WORD.search(node.value)):
            yield ast.unparse(node)


def sees_verdicts(name: str) -> bool:
    return package(name) in SEE_VERDICTS and name not in CONNECTIONS | QUORUM | CLUSTER


def test_the_layers_above_the_stores_see_verdicts() -> None:
    found = {name: [*raw_replies(path.read_text("utf-8"))] for name, path in modules().items() if sees_verdicts(name)}
    assert {name: raw for name, raw in found.items() if raw} == {}


@pytest.mark.parametrize(
    "source",
    ["if reply == 2:\n    pass", 'lacks = said.word == "NOPERM"', 'cursor = b"0"', 'text = f"{said}: CLUSTERDOWN"'],
)
def test_a_raw_reply_is_seen(source: str) -> None:
    assert [*raw_replies(source)]
