"""The docstrings are the reference: complete, with examples that run, and docs/reference.md is made from them."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import doctest
import importlib.util
import inspect
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import holdtight
from holdtight import Locks, embedded, errors, events, fencing, history, metrics, testing, tracing, tuning
from holdtight.config import url
from tests.fencing.databases import Postgres

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


@pytest.mark.parametrize("of", [Locks, Locks.inspect, holdtight.LockInfo, events.Lost, errors.LeaseLost])
def test_a_page_that_is_stale_is_seen(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "__doc__", (of.__doc__ or "").replace(".", ", as of today.", 1))
    with pytest.raises(AssertionError, match="stale: run make docs"):
        test_the_page_is_what_the_docstrings_say()


def verbs() -> Iterator[tuple[str, Any]]:
    for cls in PUBLIC:
        for name in cls.public:
            found = inspect.getattr_static(cls, name, None)
            if found is not None:
                yield f"{cls.__name__}.{name}", found


def explains(said: str, parameter: str) -> bool:
    """Whether the text, without its example, has the parameter as code or in the table of options."""
    text = said.partition("Example:\n")[0]
    return re.search(rf"`[^`]*\b{parameter}\b[^`]*`|(?m:^    (?:\w+, )*{parameter}(?:, \w+)*: )", text) is not None


@pytest.mark.parametrize(("name", "of"), [*verbs()], ids=[name for name, _ in verbs()])
def test_every_public_method_is_documented(name: str, of: Any) -> None:
    said = inspect.getdoc(of) or ""
    assert len(said) > 20
    if callable(of):
        for each in inspect.signature(of).parameters:
            if each not in ("self", "unknown", "options", "names_or_locks", "name"):
                assert explains(said, each), f"{name} does not explain {each}"


def test_a_parameter_that_only_the_example_has_is_not_explained() -> None:
    assert explains("Waits; `wait` is how long.", "wait")
    assert explains("Waits.\n\nOptions:\n    ttl, wait: as for `lock`.", "wait")
    assert not explains("Raises LockTimeout when the wait ends.\n\nExample:\n    >>> lock.acquire(wait=5)", "wait")


OPTIONS: dict[str, Any] = {
    "ttl": 5,
    "wait": 1,
    "reentrant": True,
    "renew": False,
    "max_hold": "1h",
    "label": "shop",
    "cohort": True,
}


def test_what_is_said_of_the_options_of_a_kind_is_what_it_takes() -> None:
    options = [*inspect.signature(Locks.lock).parameters]
    assert set(options) - {"self", "name", "unknown"} == set(OPTIONS)
    with Locks("memory://") as locks:
        kinds: list[tuple[Any, dict[str, Any]]] = [
            (locks.rwlock, {}),
            (locks.semaphore, {"permits": 3}),
            (locks.multi, {}),
        ]
        for kind, more in kinds:
            refused = set()
            for word, value in OPTIONS.items():
                try:
                    kind("a", **more, **{word: value})
                except (TypeError, holdtight.NotSupported):
                    refused.add(word)
            for client in (Locks, holdtight.AsyncLocks):
                said = inspect.getdoc(getattr(client, kind.__name__)) or ""
                (excepted,) = re.findall(r"those of `lock` without ((?:`\w+`|and| )+)", said)
                assert set(re.findall(r"\w+", excepted)) - {"and"} == refused


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
    *((f"RedisGuard.{name}", getattr(fencing.RedisGuard, name)) for name in ("claim", "prune", "seen", "write")),
    *((f"Clock.{name}", getattr(testing.Clock, name)) for name in ("advance", "now", "store", "until_waiting")),
    *(("Clock.waiting", testing.Clock.waiting), ("metrics.flush", metrics.flush)),
    ("events.subscribe", events.Events.subscribe),
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
    for each in inspect.signature(of).parameters.values() if callable(of) else ():
        if each.name not in ("self", "locks", "name", "code"):
            assert explains(said, each.name), f"{name} does not explain {each.name}"


@pytest.mark.parametrize(("name", "of"), BEYOND, ids=[name for name, _ in BEYOND])
def test_every_class_of_other_modules_is_documented_with_an_example(name: str, of: Any) -> None:
    said = inspect.getdoc(of) or ""
    assert ">>>" in said
    if not name.startswith("Async"):
        for option in inspect.signature(of).parameters:
            assert explains(said, option), f"{name} does not explain {option}"


def test_the_page_has_every_public_name() -> None:
    page = (ROOT / "docs/reference.md").read_text("utf-8")
    missing = {name for name in holdtight.__all__ if not re.search(rf"`{name}`|^## {name}\b", page, re.MULTILINE)}
    assert missing - {"Duration", "Target"} == set()
    for name in (
        "holdtight.Duration",
        "## Targets",
        "### `locks.events.subscribe(function)`",
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


def test_every_parameter_of_a_url_is_in_the_table() -> None:
    section = (ROOT / "docs/reference.md").read_text("utf-8").partition("### Parameters of a URL\n")[2]
    table, _, rest = section.partition("\n## ")[0].partition("Without effect")
    rows = re.findall(r"(?m)^\| (`.*?) \|", table)
    assert {word for row in rows for word in re.findall(r"`(\w+)`", row)} == url.PLAIN | url.OF_TLS
    assert set(re.findall(r"`(\w+)`", rest)) == url.IGNORED


@pytest.mark.parametrize("name", errors.__all__)
def test_what_an_error_has_beyond_the_usual_is_explained(name: str) -> None:
    cls = getattr(errors, name)
    own = [each for each in inspect.get_annotations(cls) if each != "code"]
    page = (ROOT / "docs/reference.md").read_text("utf-8").partition("\n## Errors\n")[2]
    (row,) = re.findall(rf"(?m)^\| `{name}` \|.*$", page)
    cells = row.split(" | ")
    section = holdtight.docs(cls.code) if cls.code else ""
    for each in own:
        assert f"`{each}`" in cells[3]
        assert f"`{each}`" in cells[4]
        assert f"`{each}`" in section


EXAMPLES = [(name, of) for name, of in documented() if ">>>" in (inspect.getdoc(of) or "")]


@pytest.fixture(scope="module")
def data_url() -> Iterator[str]:
    with embedded.Server() as server:
        yield server.url


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if why := Postgres.missing():
        pytest.skip(why)
    with Postgres() as database:
        yield database


STOCK = ("CREATE TABLE sku (id INTEGER PRIMARY KEY, stock INTEGER)", "INSERT INTO sku VALUES (1, 10)")


@contextmanager
def surroundings(name: str, text: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What the examples may use, as the page's introduction says."""
    names: dict[str, Any] = {each: getattr(holdtight, each) for each in holdtight.__all__}
    with ExitStack() as stack:
        conn = stack.enter_context(closing(sqlite3.connect("shop.db")))
        guard: Any = fencing.SqlGuard()
        for statement in STOCK:
            conn.execute(statement)
        conn.commit()
        if name != "SqlGuard":
            guard.create(conn)
        if "RedisGuard" in name:
            names["url"] = request.getfixturevalue("data_url")
            names["client"] = client = stack.enter_context(redis.Redis.from_url(names["url"]))
            client.flushdb()
            client.set("stock:1", 10)
            guard = fencing.RedisGuard(client)
        if re.search(r"\bdsn\b", text):
            database = request.getfixturevalue("postgres")
            names["dsn"] = database.dsn
            for statement in STOCK:
                database.execute(statement)
        names["locks"] = stack.enter_context(Locks("memory://", wait=5))
        names |= {"asyncio": asyncio, "conn": conn, "guard": guard, "Clock": testing.Clock}
        yield names


@pytest.mark.parametrize(("name", "of"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_run(
    name: str, of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(of) or ""
    with surroundings(name, text, request) as names:
        test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        said: list[str] = []
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
        assert not said, "".join(said)


def defined_and_called(text: str) -> tuple[set[str], set[str]]:
    """The functions that an example defines without a decorator, and the names that it calls or hands on."""
    code = "".join(each.source for each in doctest.DocTestParser().get_examples(text))
    nodes = [*ast.walk(ast.parse(code))]
    made = {
        each.name
        for each in nodes
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not each.decorator_list
    }
    return made, {each.id for each in nodes if isinstance(each, ast.Name)}


@pytest.mark.parametrize(("name", "of"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_no_example_only_defines_a_function(name: str, of: Any) -> None:
    made, used = defined_and_called(inspect.getdoc(of) or "")
    assert made <= used


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


@pytest.mark.parametrize(
    "cls", [cls for cls in CLASSES if not issubclass(cls, Exception)], ids=lambda cls: cls.__name__
)
def test_every_public_class_has_an_example(cls: Any) -> None:
    """Those of errors are in docs/errors.md."""
    assert ">>>" in (inspect.getdoc(cls) or "")


@pytest.mark.parametrize("name", [name for name in events.__all__ if name not in ("Event", "Events")])
def test_every_event_is_explained_with_its_fields(name: str) -> None:
    cls = getattr(events, name)
    said = inspect.getdoc(cls) or ""
    assert not said.startswith(f"{name}("), "dataclass made this text"
    for each in dataclasses.fields(cls):
        if each.name not in ("name", "owner", "kind", "template"):
            assert re.search(rf"`{each.name}`", said), f"{name} does not explain {each.name}"
