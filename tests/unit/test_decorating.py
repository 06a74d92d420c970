"""A lock as a decorator refuses functions that would run without it: at decoration if possible, else at the call."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks

NODES = [f"redis://127.0.0.1:{port}" for port in (1, 2, 3)]
KINDS: dict[str, Callable[[Any, str], Any]] = {
    "lock": lambda locks, name: locks.lock(name),
    "read": lambda locks, name: locks.rwlock(name).read(),
    "write": lambda locks, name: locks.rwlock(name).write(),
    "semaphore": lambda locks, name: locks.semaphore(name, permits=2),
    "multi": lambda locks, name: locks.multi("another", name),
    "quorum": lambda locks, name: type(locks)(NODES).lock(name),
}


@pytest.fixture(params=[Locks, AsyncLocks], ids=["blocking", "asyncio"])
def locks(request: pytest.FixtureRequest) -> Any:
    return request.param("memory://")


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, locks: Any) -> Callable[[str], Any]:
    return functools.partial(KINDS[request.param], locks)


def rows(limit: int = 3) -> Iterator[int]:
    yield from range(limit)


async def stream() -> AsyncIterator[int]:
    yield 1


class Report:
    def rows(self) -> Iterator[int]:
        yield 1

    async def stream(self) -> AsyncIterator[int]:
        yield 1

    def __call__(self) -> Iterator[int]:
        yield 1


class Stream:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1


@contextmanager
def block() -> Iterator[None]:
    yield


@asynccontextmanager
async def async_block() -> AsyncIterator[None]:
    yield


UNLOCKED: dict[str, Any] = {
    "a generator function": rows,
    "an async generator function": stream,
    "a part of a generator function": functools.partial(rows, 5),
    "a part of a part": functools.partial(functools.partial(rows, 5)),
    "a method": Report().rows,
    "an async method": Report().stream,
    "an unbound method": Report.rows,
    "a part of a method": functools.partial(Report().rows),
    "a callable object": Report(),
    "an async callable object": Stream(),
    "a part of a callable object": functools.partial(Report()),
    "a static method": staticmethod(rows),
    "a class method": classmethod(rows),  # type: ignore[arg-type]
    "a generator expression's function": lambda: (yield 1),
    "a context manager": block,
    "an async context manager": async_block,
    "a part of a context manager": functools.partial(block),
}


@pytest.mark.parametrize("function", UNLOCKED.values(), ids=UNLOCKED)
def test_what_runs_after_the_call_is_refused_at_decoration(make: Callable[[str], Any], function: Any) -> None:
    with pytest.raises(TypeError, match=r"(generator function|context manager).*g'.*inside the function.*with lock"):
        make("g")(function)


def test_an_async_generator_is_told_to_use_async_locks() -> None:
    for each in (stream, async_block):
        with pytest.raises(TypeError, match=r"a lock of AsyncLocks inside the function.*: async with lock"):
            Locks("memory://").lock("g")(each)


def test_the_order_of_decorators_does_not_matter() -> None:
    lock = Locks("memory://").lock("g")
    with pytest.raises(TypeError, match="context manager"):
        lock(contextmanager(rows))
    with pytest.raises(TypeError, match="generator function"):
        contextmanager(lock(rows))


RETURNED: dict[str, Callable[[], Any]] = {
    "a generator": lambda: rows(),
    "a generator expression": lambda: (number for number in range(3)),
    "a coroutine": lambda: asyncio.sleep(0),
    "an async generator": lambda: stream(),
}


@pytest.mark.parametrize("what", RETURNED)
def test_work_that_a_plain_function_returns_unbegun_is_refused_at_the_call(what: str) -> None:
    with Locks("memory://") as locks:
        lock = locks.lock("g")
        with pytest.raises(TypeError, match=r"returned (a|an async) (generator|coroutine) under the lock"):
            lock(RETURNED[what])()
        assert not lock.locked()


@pytest.mark.parametrize("what", RETURNED)
def test_work_that_an_async_function_returns_unbegun_is_refused_at_the_call(what: str) -> None:
    async def returning() -> Any:
        return RETURNED[what]()

    async def main() -> None:
        async with AsyncLocks("memory://") as locks:
            lock = locks.lock("g")
            with pytest.raises(TypeError, match=r"returned (a|an async) (generator|coroutine) under the lock"):
                await lock(returning)()
            assert not await lock.locked()

    asyncio.run(main())


def test_callables_of_the_other_colour_are_still_told_apart() -> None:
    class Work:
        async def __call__(self) -> int:
            return 1

    class Plain:
        def __call__(self) -> int:
            return 1

    work: Any = Work()
    plain: Any = Plain()
    with pytest.raises(TypeError, match="is async: decorate it with a lock of AsyncLocks"):
        Locks("memory://").lock("w")(work)
    with pytest.raises(TypeError, match="is not an async function: decorate it with a lock of Locks"):
        AsyncLocks("memory://").lock("w")(plain)

    async def main() -> None:
        async with AsyncLocks("memory://") as locks:
            assert await locks.lock("w")(work)() == 1
            assert await locks.lock("w")(functools.partial(work))() == 1

    asyncio.run(main())
    with Locks("memory://") as locks:
        assert locks.lock("w")(plain)() == 1
        assert locks.lock("w")(len)("four") == 4
        assert locks.lock("w")(list)("ab") == ["a", "b"]


TEMPLATES = [
    "order:{order_id}",
    "{tenant}:orders",
    "order:{order.id}",
    "order:{order.key()}",
    "order:{ids[0]}",
    "order:{ids[key].name}",
    "order:{number:05d}",
    "order:{order!r}",
    "order:{order!r:>10}",
    "order:{order=}",
    "order:{ order_id }",
    "order:{}",
    "order:{0}",
    "order:{0.id}",
    "order:{auftrag_für}",
]
LITERAL = ["order", "order:{", "order:}", "a}b{c", "order:{a,b}", 'order:{"id": 1}', "order:{1 + }", "%s", "$order"]


def plain() -> int:
    return 1


async def coloured() -> int:
    return 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_name_that_reads_as_a_template_is_refused_in_a_decorator(make: Callable[[str], Any], name: str) -> None:
    lock = make(name)
    function = coloured if type(lock).__name__.startswith("Async") else plain
    with pytest.raises(ValueError, match=r"taken literally.*one and the same lock.*inside the function") as caught:
        lock(function)
    assert f"with locks.lock(f{name!r})" in str(caught.value)
    assert re.search(r"fills in no \{[^}]*\}", str(caught.value))


@pytest.mark.parametrize("name", LITERAL)
def test_a_name_with_other_braces_is_a_name(name: str) -> None:
    with Locks("memory://") as locks:
        assert locks.lock(name)(plain)() == 1


def test_outside_of_decorators_a_name_may_look_as_it_likes() -> None:
    with Locks("memory://") as locks:
        with locks.lock("a{b}") as lease:
            assert lease.name == "a{b}"
        lease = locks.multi("a{b}", "c").acquire()
        lease.release()
