"""Checks for locks used as decorators: the function, the lock's name, and the result of a call.

Calling a generator function or an async function only makes an object; its code runs when the object is iterated or
awaited. A lock around such a call would be free again before any of that code runs.
"""

import contextlib
import functools
import inspect
import re
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, cast

__all__ = ["begun", "check_body", "check_decorated", "is_async"]

_PLACEHOLDER = re.compile(
    r"\{\s*(?:[^\W\d]\w*|\d*)(?:\.[^\W\d]\w*|\[[^\[\]{}]*\]|\([^(){}]*\))*\s*=?\s*(?:![ars])?(?::[^{}]*)?\}"
)
"""The placeholders of `str.format` and f-strings: {order_id}, {order.id}, {ids[0]}, {order.key()}, {n:05d}, {}, {0}."""
_NOT_BEGUN: dict[type, str] = {
    GeneratorType: "a generator",
    CoroutineType: "a coroutine",
    AsyncGeneratorType: "an async generator",
}


def _nothing() -> Any:
    raise NotImplementedError


_CONTEXT_MANAGER = contextlib.contextmanager(_nothing).__code__
_ASYNC_CONTEXT_MANAGER = contextlib.asynccontextmanager(_nothing).__code__
"""The code object shared by all functions that `@contextmanager` or `@asynccontextmanager` made."""


def _innermost(function: Any) -> Any:
    """The function whose code a call runs, as far as it can be determined."""
    while True:
        if isinstance(function, (functools.partial, functools.partialmethod)):
            function = cast(Any, function).func
        elif isinstance(function, (staticmethod, classmethod)) or inspect.ismethod(function):
            function = cast(Any, function).__func__
        elif inspect.isroutine(function) or isinstance(function, type):
            return function
        else:
            return getattr(function.__class__, "__call__", function)  # noqa: B004


def is_async(function: Any) -> bool:
    """Whether a call returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_innermost(function))


def check_body(function: Any, name: str) -> bool:
    """Raises TypeError if the function's body would run after the call, without the lock. True if it is async."""
    inner = _innermost(function)
    code = getattr(inner, "__code__", None)
    later = ""
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        later = "is a generator function: its body runs when somebody iterates"
    elif code in (_CONTEXT_MANAGER, _ASYNC_CONTEXT_MANAGER):
        later = "makes a context manager: the block under it runs"
    awaits = is_async(inner) or inspect.isasyncgenfunction(inner) or code is _ASYNC_CONTEXT_MANAGER
    block, which = ("async with", "a lock of AsyncLocks") if awaits else ("with", "the lock")
    if later:
        raise TypeError(
            f"{function!r} {later}, after the call has given {name!r} back. Take {which} inside the function "
            f"instead of decorating it: {block} lock: ..."
        )
    return awaits


def check_decorated(lock: Any, function: Any) -> None:
    """Raises TypeError if the function would run without the lock, ValueError if the name looks like a template."""
    awaits = check_body(function, lock.name)
    block = "async with" if awaits else "with"
    for name in (part.name for part in getattr(lock, "parts", (lock,))):
        found = _PLACEHOLDER.search(name)
        if found:
            raise ValueError(
                f"the name {name!r} is taken literally: a decorator fills in no {found[0]}, and all calls would take "
                f"one and the same lock. Use @locks.synchronized({name!r}), which fills it in from the arguments of "
                f"each call, or take the lock inside the function: {block} locks.lock(f{name!r}): ..."
            )


def begun(result: Any, function: Any) -> Any:
    """Returns the result of a call under the lock. Raises TypeError if its code has yet to run, without the lock."""
    what = _NOT_BEGUN.get(result.__class__) or ("an awaitable" if hasattr(result, "__await__") else None)
    if what is None:
        return result
    if result.__class__ is CoroutineType:
        result.close()  # it is never awaited, and Python's warning about that would hide the error
    raise TypeError(
        f"{function!r} returned {what} under the lock: its code runs when somebody iterates or awaits it, and the lock "
        "is free by then. Do that work inside the function, or take the lock where the work is done"
    )
