"""The docstrings are the reference: complete, with examples that run, and docs/reference.md is made from them."""

from __future__ import annotations

import asyncio
import dataclasses
import doctest
import importlib.util
import inspect
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdtight
from holdtight import Locks, embedded, events, fencing, history, metrics, testing, tracing, tuning

ROOT = Path(__file__).parents[2]
CLASSES = [getattr(holdtight, name) for name in holdtight.__all__ if inspect.isclass(getattr(holdtight, name))]
PUBLIC = [cls for cls in CLASSES if hasattr(cls, "public")]


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs/reference.md").read_text("utf-8") == reference().written(), "stale: run make docs"


def verbs() -> Iterator[tuple[str, Any]]:
    for cls in PUBLIC:
        for name in cls.public:
            found = inspect.getattr_static(cls, name, None)
            if found is not None:
                yield f"{cls.__name__}.{name}", found


@pytest.mark.parametrize(("name", "of"), [*verbs()], ids=[name for name, _ in verbs()])
def test_every_public_method_is_documented(name: str, of: Any) -> None:
    said = inspect.getdoc(of) or ""
    assert len(said) > 20
    if callable(of):
        for each in inspect.signature(of).parameters.values():
            if each.name not in ("self", "unknown", "options", "names_or_locks", "name", "label"):
                assert re.search(rf"\b{each.name}\b", said), f"{name} does not explain {each.name}"


@pytest.mark.parametrize("cls", [holdtight.Locks, holdtight.AsyncLocks], ids=lambda cls: cls.__name__)
def test_every_option_of_a_client_is_explained_with_its_default(cls: Any) -> None:
    said = inspect.getdoc(cls) or ""
    options = said.partition("Options:\n")[2].partition("\n\n")[0] + "\n"
    explained = dict(re.findall(r"(?m)^    (\w+): ((?:.+\n)(?:        .+\n)*)", options))
    parameters = [each.name for each in inspect.signature(cls).parameters.values() if each.name != "unknown"]
    assert list(explained) == parameters
    assert [word for word, text in explained.items() if "efault" not in text and "not built" not in text] == []


FUNCTIONS: list[tuple[str, Any]] = [
    *(("current_lease", holdtight.current_lease), ("docs", holdtight.docs), ("testing.lose", testing.lose)),
    *(("metrics.install", metrics.install), ("metrics.install_otel", metrics.install_otel)),
    *(("metrics.watch", metrics.watch), ("tracing.install", tracing.install), ("history.install", history.install)),
    *(("tuning.watch", tuning.watch), ("tuning.load", tuning.load)),
    *(("Watch.report", tuning.Watch.report), ("Watch.save", tuning.Watch.save)),
    *((f"SqlGuard.{name}", getattr(fencing.SqlGuard, name)) for name in ("claim", "create", "prune", "seen", "under")),
]
BEYOND: list[tuple[str, Any]] = [
    *((name, getattr(fencing, name)) for name in fencing.__all__),
    *(("embedded.Server", embedded.Server), ("testing.Clock", testing.Clock)),
]
"""What is imported from modules of its own."""


def documented() -> Iterator[tuple[str, Any]]:
    for cls in CLASSES:
        yield cls.__name__, cls
    yield from verbs()
    yield from FUNCTIONS
    yield from BEYOND


@pytest.mark.parametrize(("name", "of"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_every_public_function_is_documented_with_an_example(name: str, of: Any) -> None:
    said = inspect.getdoc(of) or ""
    assert ">>>" in said
    for each in inspect.signature(of).parameters.values():
        if each.name not in ("self", "locks", "name", "code", "fence"):
            assert re.search(rf"\b{each.name}\b", said), f"{name} does not explain {each.name}"


@pytest.mark.parametrize(("name", "of"), BEYOND, ids=[name for name, _ in BEYOND])
def test_every_class_of_other_modules_is_documented_with_an_example(name: str, of: Any) -> None:
    said = inspect.getdoc(of) or ""
    assert ">>>" in said
    if not name.startswith("Async"):
        for option in inspect.signature(of).parameters:
            assert re.search(rf"\b{option}\b", said), f"{name} does not explain {option}"


def test_the_page_has_every_public_name() -> None:
    page = (ROOT / "docs/reference.md").read_text("utf-8")
    missing = {name for name in holdtight.__all__ if not re.search(rf"`{name}`|^## {name}\b", page, re.MULTILINE)}
    assert missing - {"Duration", "Target"} == set()
    for name in (
        "holdtight.Duration",
        "## Targets",
        *(f"`{name}`" for name in events.__all__ if name not in ("Event", "Events")),
    ):
        assert name in page


def test_every_option_of_run_is_explained_with_its_default() -> None:
    for cls in (holdtight.Leader, holdtight.AsyncLeader):
        said = inspect.getdoc(cls.run) or ""
        for option in ("pause", "on_error"):
            assert re.search(rf"(?s)\n    {option}: .*?Default", said)
        assert '"campaign"' in said
    assert '"exit"' in (inspect.getdoc(holdtight.Leader.run) or "")


@pytest.mark.parametrize(
    "target", ["redis+sentinel://", "redis+cluster://", "master_for", "RedisCluster", "valkey-py", "memory://"]
)
def test_the_table_of_targets_has_each(target: str) -> None:
    table = (ROOT / "docs/reference.md").read_text("utf-8").partition("## Targets")[2].partition("\n## ")[0]
    assert target in table


EXAMPLES = [(name, of) for name, of in documented() if ">>>" in (inspect.getdoc(of) or "")]


@pytest.mark.parametrize(("name", "of"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_run(name: str, of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {each: getattr(holdtight, each) for each in holdtight.__all__}
    with Locks("memory://", wait=5) as locks, closing(sqlite3.connect("shop.db")) as conn:
        guard = fencing.SqlGuard()
        conn.execute("CREATE TABLE sku (id INTEGER PRIMARY KEY, stock INTEGER)")
        conn.execute("INSERT INTO sku VALUES (1, 10)")
        conn.commit()
        if name != "SqlGuard":
            guard.create(conn)
        names |= {"locks": locks, "asyncio": asyncio, "conn": conn, "guard": guard}
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(of) or "", names, name, None, None)
        said: list[str] = []
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
        assert not said, "".join(said)


BLOCKING = [(name, of) for name, of in verbs() if not name.startswith("Async")]


@pytest.mark.parametrize(("name", "of"), BLOCKING, ids=[name for name, _ in BLOCKING])
def test_every_verb_of_the_blocking_classes_has_an_example(name: str, of: Any) -> None:
    assert ">>>" in (inspect.getdoc(of) or "") or name.endswith(".name")


AWAITED = [
    (name, of)
    for name, of in verbs()
    if name.startswith("Async") and ">>>" not in (inspect.getdoc(of) or "") and not name.endswith((".name", ".bless"))
]


@pytest.mark.parametrize(("name", "of"), AWAITED, ids=[name for name, _ in AWAITED])
def test_every_verb_of_asyncio_is_in_the_example_of_its_class_or_of_the_client_or_has_its_own(
    name: str, of: Any
) -> None:
    """`bless` needs a quorum: the example of the blocking one shows it."""
    cls, _, verb = name.partition(".")
    said = (inspect.getdoc(holdtight.AsyncLocks) or "") + (inspect.getdoc(getattr(holdtight, cls)) or "")
    assert f".{verb}(" in said


@pytest.mark.parametrize(
    "cls",
    [
        *(holdtight.LockInfo, holdtight.Holder, holdtight.Waiter, holdtight.Profile, holdtight.AuditRecord),
        *(holdtight.Finding, holdtight.Skipped, holdtight.Run, holdtight.Peek, holdtight.Leadership),
    ],
    ids=lambda cls: cls.__name__,
)
def test_every_field_is_explained(cls: Any) -> None:
    assert re.findall(r"(?m)^    (\w+): ", inspect.getdoc(cls) or "") == list(cls._fields)


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_every_public_class_has_an_example(cls: Any) -> None:
    assert ">>>" in (inspect.getdoc(cls) or "")


@pytest.mark.parametrize("name", [name for name in events.__all__ if name not in ("Event", "Events")])
def test_every_event_is_explained_with_its_fields(name: str) -> None:
    cls = getattr(events, name)
    said = inspect.getdoc(cls) or ""
    assert not said.startswith(f"{name}("), "dataclass made this text"
    for each in dataclasses.fields(cls):
        if each.name not in ("name", "owner", "kind", "template"):
            assert re.search(rf"`{each.name}`", said), f"{name} does not explain {each.name}"
