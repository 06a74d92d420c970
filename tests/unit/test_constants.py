"""A constant is written once, and so is the text of a broken connection."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.unit.test_layers import LAYERS, modules, package

LOWER = {name for layer in LAYERS[: LAYERS.index(("compat",)) + 1] for name in layer if name != "embedded"}
NAME = re.compile(r"_?[A-Z][A-Z0-9_]*")


def assigned(source: str) -> Iterator[tuple[str, ast.expr]]:
    """The constants of a module, without the underscore of a private one."""
    target: ast.expr
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        else:
            continue
        pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, value in pairs:
            if isinstance(name, ast.Name) and NAME.fullmatch(name.id):
                yield name.id.removeprefix("_"), value


def is_number(value: ast.expr) -> bool:
    try:
        return type(eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {}})) in (int, float)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return False


def is_plain(value: ast.expr) -> bool:
    return not any(isinstance(node, ast.Call | ast.Subscript | ast.Attribute) for node in ast.walk(value))


def twice(sources: dict[str, str]) -> list[str]:
    """Constants that two modules define: numbers of one name, whatever the values, and equal constants of one name."""
    where: dict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for name, value in assigned(source):
            if is_number(value):
                if package(module) in LOWER:
                    where[name].add(module)
            elif is_plain(value):
                where[f"{name} = {ast.unparse(value)}"].add(module)
    return [f"{constant} in {', '.join(sorted(found))}" for constant, found in where.items() if len(found) > 1]


def test_a_constant_is_written_once() -> None:
    assert twice({name: path.read_text("utf-8") for name, path in modules().items()}) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MOST_LATE = 10", "MOST_LATE = 3"),
        ("PATIENCE = 2.0", "_PATIENCE = 2.0"),
        ("FIRST, LAST = 1, 2", "LAST = 3600 * 24"),
        ('OPTIONS = ("ttl", "wait")', 'OPTIONS: tuple[str, ...] = ("ttl", "wait")'),
    ],
)
def test_a_constant_that_is_written_twice_is_seen(one: str, other: str) -> None:
    assert twice({"core.quorum": one, "stores.times": other})


def test_programs_may_call_their_own_numbers_alike() -> None:
    assert twice({"cli.running": "LOOKS = 12", "core.quorum": "LOOKS = 4"}) == []


def texts(source: str) -> set[str]:
    """The constant pieces of the module's strings, without documentation."""
    tree = ast.parse(source)
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value.strip(" :;,")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation
    }


def causes(source: str) -> set[str]:
    """Texts of three or more words that the module gives to LinkDown."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LinkDown"
    ]
    found = {text for call in calls for argument in call.args for text in texts(f"_ = {ast.unparse(argument)}")}
    return {text for text in found if len(text.split()) >= 3}


def causes_twice(sources: dict[str, str]) -> list[str]:
    written = {module: texts(source) for module, source in sources.items()}
    shared = texts(sources.get("base.plan", ""))
    known = {text for source in sources.values() for text in causes(source)}
    known |= {text for text in shared if len(text.split()) >= 3}
    where = {text: [module for module, found in written.items() if text in found] for text in known}
    return [f"{text!r} in {', '.join(modules)}" for text, modules in where.items() if len(modules) > 1]


def test_the_cause_of_a_broken_connection_is_written_once() -> None:
    lower = {name: path for name, path in modules().items() if package(name) in LOWER}
    assert causes_twice({name: path.read_text("utf-8") for name, path in lower.items()}) == []


def test_a_cause_that_is_written_twice_is_seen() -> None:
    one, other = 'raise LinkDown("no thread is left", sent=False)', 'self.fail(f"no thread is left: {error}")'
    assert causes_twice({"sync.pool": one, "keeper.connection": other})
    assert causes_twice(
        {"base.plan": 'CLOSED = "the connection is closed"', "aio.driver": 'say("the connection is closed")'}
    )
