"""Mistakes between the two colours: `with` for `async with`, a forgotten `await`. Each error names the right word."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from holdtight import AsyncLocks, Lease, Locks

Opened = Callable[[AsyncLocks], Any]
BLOCKING: list[Callable[[Locks], Any]] = [
    lambda locks: locks,
    lambda locks: locks.lock("a"),
    lambda locks: locks.rwlock("a").read(),
    lambda locks: locks.semaphore("s", permits=2),
    lambda locks: locks.multi("a", "b"),
    lambda locks: locks.lock("a").hold(),
]


def in_loop(test: Callable[[AsyncLocks], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncLocks("memory://") as locks:
            await test(locks)

    asyncio.run(main())


@pytest.mark.parametrize("what", BLOCKING)
def test_with_on_what_is_for_asyncio_says_async_with(what: Callable[[Any], Any]) -> None:
    async def test(locks: AsyncLocks) -> None:
        used = what(locks)
        with pytest.raises(TypeError, match=r"^Async\w+ is for asyncio: write 'async with' .* uses Locks$"):  # noqa: SIM117
            with used:
                raise AssertionError
        lease = await locks.lock("b").acquire()
        with pytest.raises(TypeError, match=r"AsyncLease is for asyncio: write 'async with'"):  # noqa: SIM117
            with lease:  # type: ignore[attr-defined]  # pyright: ignore
                raise AssertionError
        lease.check()
        await lease.release()

    in_loop(test)


@pytest.mark.parametrize("what", BLOCKING)
def test_async_with_on_what_is_for_blocking_code_says_with(what: Callable[[Locks], Any]) -> None:
    async def enter(used: Any) -> None:
        async with used:
            raise AssertionError

    with Locks("memory://") as locks:
        with pytest.raises(TypeError, match=r"is for blocking code: write 'with' .* uses AsyncLocks$"):
            asyncio.run(enter(what(locks)))
        with locks.lock("b") as lease, pytest.raises(TypeError, match="Lease is for blocking code: write 'with'"):
            asyncio.run(enter(lease))


CALLS: list[Callable[[AsyncLocks], Coroutine[Any, Any, Any]]] = [
    lambda locks: locks.lock("a").acquire(),
    lambda locks: locks.lock("a").acquire(wait=0),
    lambda locks: locks.lock("a").try_acquire(),
    lambda locks: locks.semaphore("s", permits=2).acquire(2),
    lambda locks: locks.semaphore("s", permits=2).try_acquire(),
    lambda locks: locks.multi("a", "b").acquire(),
    lambda locks: locks.multi("a", "b").try_acquire(),
    lambda locks: locks.adopt("text"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("error")
def test_a_forgotten_await_is_told_where_the_lease_is_used(call: Callable[[AsyncLocks], Any]) -> None:
    async def test(locks: AsyncLocks) -> None:
        for attribute in ("release", "fence", "check", "renew", "detach", "lost"):
            with pytest.raises(AttributeError, match=rf"\w\(\) was not awaited.*lease\.{attribute}$"):
                getattr(call(locks), attribute)
        with pytest.raises(TypeError, match=r"was not awaited.*'async with await .* as lease'"):
            async with call(locks):
                raise AssertionError
        with pytest.raises(TypeError, match=r"was not awaited.*'async with await .* as lease'"):  # noqa: SIM117
            with call(locks):
                raise AssertionError
        with pytest.raises(TypeError, match=r"was not awaited.*'lease = await "):
            bool(call(locks))
        gc.collect()
        assert not await locks.lock("a").locked()

    in_loop(test)


@pytest.mark.filterwarnings("error")
def test_a_forgotten_await_is_told_where_the_term_is_used() -> None:
    async def test(locks: AsyncLocks) -> None:
        leader: Any = locks.leader("a")
        for attribute in ("fence", "release", "proclaim", "resign", "since"):
            with pytest.raises(AttributeError, match=rf"'term = await \.\.\.campaign\(.*term\.{attribute}$"):
                getattr(leader.campaign(), attribute)
        with pytest.raises(TypeError, match=r"'async with await \.\.\.campaign\(\.\.\.\) as term'$"):
            async with leader.campaign():
                raise AssertionError
        gc.collect()
        term = await leader.campaign()
        await term.resign()

    in_loop(test)


ANSWERS: list[Callable[[AsyncLocks], Coroutine[Any, Any, Any]]] = [
    lambda locks: locks.lock("a").locked(),
    lambda locks: locks.rwlock("a").locked(),
    lambda locks: locks.rwlock("a").read().locked(),
    lambda locks: locks.semaphore("s", permits=2).locked(),
    lambda locks: locks.multi("a", "b").locked(),
    lambda locks: locks.leader("a").current(),
    lambda locks: locks.leader("a").contenders(),
]


@pytest.mark.parametrize("call", ANSWERS)
@pytest.mark.filterwarnings("error")
def test_an_answer_that_is_not_awaited_is_neither_yes_nor_no(call: Callable[[AsyncLocks], Any]) -> None:
    async def test(locks: AsyncLocks) -> None:
        for ask in (bool, lambda answer: not answer, lambda answer: answer and None):
            with pytest.raises(TypeError, match=r"^\w+\(\) was not awaited.*write 'if await \.\.\.\w+\(\.\.\.\)'$"):
                ask(call(locks))
        gc.collect()
        assert not await call(locks)

    in_loop(test)


def test_a_call_whose_result_nobody_uses_is_warned_of_by_python() -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.warns(RuntimeWarning, match=r"coroutine 'AsyncLock.acquire' was never awaited"):
            locks.lock("a").acquire()  # type: ignore[unused-coroutine]  # pyright: ignore

    in_loop(test)


@pytest.mark.parametrize(
    "use",
    [
        lambda call: call,
        asyncio.create_task,
        lambda call: asyncio.wait_for(call, 10),
        asyncio.gather,
        asyncio.shield,
        asyncio.ensure_future,
    ],
)
def test_a_call_goes_wherever_a_coroutine_goes(use: Callable[[Any], Awaitable[Any]]) -> None:
    async def test(locks: AsyncLocks) -> None:
        call = locks.lock("a").acquire()
        assert asyncio.iscoroutine(call)
        assert inspect.isawaitable(call)
        assert "acquire" in repr(call)
        found = await use(call)
        (lease,) = found if isinstance(found, list) else [found]
        lease.check()
        await lease.release()

    in_loop(test)


def test_a_task_shows_which_call_it_runs_and_can_be_cancelled() -> None:
    async def test(locks: AsyncLocks) -> None:
        lock = locks.lock("a")
        async with lock:
            task = asyncio.create_task(lock.acquire())
            assert "AsyncLock.acquire" in repr(task)
            await asyncio.sleep(0)
            assert "AsyncLock.acquire" in repr(task)
            assert bool(task.get_coro()), "it was not forgotten: it has begun"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not (await lock.inspect()).waiters

    in_loop(test)


def test_a_call_can_be_closed_like_a_coroutine() -> None:
    async def test(locks: AsyncLocks) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            locks.lock("a").acquire().close()
            gc.collect()

    in_loop(test)


def test_the_hints_leave_signature_and_documentation_alone() -> None:
    from holdtight import AsyncLock, Lock

    assert inspect.signature(AsyncLock.acquire).parameters.keys() == inspect.signature(Lock.acquire).parameters.keys()
    assert "Raises LockTimeout" in (AsyncLock.acquire.__doc__ or "")
    assert not hasattr(Lease, "__await__")
