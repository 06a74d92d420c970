"""The identity of a caller: the running task, else the thread; never a child of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdtight import Locks, LockTimeout
from holdtight.base.identity import Identity, identity, task_identity

KEY = ("client", "orders")


class Lease:
    """Stands for a lease: identities only keep it."""

    watched = False

    def watch(self) -> None:
        self.watched = True


def in_thread() -> Identity:
    found: list[Identity] = []
    thread = threading.Thread(target=lambda: found.append(identity()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_is_itself_and_no_other() -> None:
    mine = identity()
    assert identity() is mine
    assert mine.what == "thread"
    assert in_thread() is not mine


def test_a_new_thread_never_inherits_what_an_old_one_of_the_same_id_held() -> None:
    for _ in range(20):  # thread ids are reused at once
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(identity).result()
            assert found.stack == []
            found.stack.append((KEY, Lease()))


def test_what_a_thread_leaves_in_a_block_is_watched_when_it_ends() -> None:
    left = Lease()
    thread = threading.Thread(target=lambda: identity().stack.append((KEY, left)))
    thread.start()
    thread.join()
    gc.collect()
    assert left.watched


def test_a_pooled_thread_stays_itself_from_job_to_job() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(identity).result() is pool.submit(identity).result()


def test_context_variables_do_not_carry_it_into_a_thread() -> None:
    identity().stack.append((KEY, Lease()))
    try:
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(context.run, identity).result().stack == []
    finally:
        identity().stack.clear()


def test_in_a_loop_it_is_the_task_and_not_the_thread() -> None:
    thread = identity()

    async def main() -> None:
        assert identity() is not thread
        assert identity().what == "task"

    asyncio.run(main())


def test_a_child_task_inherits_nothing() -> None:
    async def child() -> Identity:
        return identity()

    async def main() -> None:
        mine = identity()
        mine.enter_block(KEY, Lease())
        assert identity() is mine
        theirs = await asyncio.create_task(child())
        assert theirs is not mine
        assert theirs.stack == []
        assert (await asyncio.gather(child(), child()))[0].stack == []
        assert (await asyncio.to_thread(identity)).stack == []
        mine.leave_block(KEY)

    asyncio.run(main())


def test_awaiting_a_coroutine_stays_in_the_same_task() -> None:
    async def inner() -> Identity:
        return identity()

    async def main() -> None:
        mine = identity()
        mine.enter_block(KEY, Lease())
        await asyncio.sleep(0)
        assert await inner() is mine
        mine.leave_block(KEY)

    asyncio.run(main())


def test_two_tasks_that_take_turns_stay_apart() -> None:
    async def hold(name: str, both: asyncio.Barrier) -> None:
        lease = Lease()
        identity().enter_block(("client", name), lease)
        for _ in range(3):
            await both.wait()
            assert identity().stack == [(("client", name), lease)]
        identity().leave_block(("client", name))

    async def main() -> None:
        both = asyncio.Barrier(2)
        await asyncio.gather(hold("a", both), hold("b", both))

    asyncio.run(main())


def test_a_callback_of_the_loop_that_is_no_task_is_the_thread() -> None:
    thread = identity()

    async def main() -> None:
        found: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: found.set_result(identity()))
        assert await found is thread

    asyncio.run(main())


def test_blocks_are_left_innermost_first_and_by_key() -> None:
    who, outer, inner, other = Identity(), Lease(), Lease(), Lease()
    who.enter_block(KEY, outer)
    who.enter_block(KEY, inner)
    who.enter_block(("client", "other"), other)
    assert who.leave_block(("client", "orders")) is inner
    assert who.leave_block(("client", "other")) is other
    assert who.leave_block(KEY) is outer
    with pytest.raises(RuntimeError, match=r"'orders' was left in another thread or task .* use hold\(\)"):
        who.leave_block(KEY)


def test_a_task_that_is_done_is_not_kept() -> None:
    gone: list[weakref.ref[Any]] = []

    async def block() -> None:
        gone.append(weakref.ref(asyncio.current_task()))
        identity().enter_block(KEY, Lease())
        identity().leave_block(KEY)

    async def grant() -> None:
        gone.append(weakref.ref(asyncio.current_task()))
        identity().remember(KEY, Lease())

    async def main() -> None:
        await asyncio.create_task(block())
        await asyncio.create_task(grant())

    asyncio.run(main())
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_a_task_that_ends_with_a_grant_taken_within_a_block_is_not_kept() -> None:
    gone: list[weakref.ref[Any]] = []

    async def work() -> None:
        gone.append(weakref.ref(asyncio.current_task()))
        who = identity()
        who.enter_block(KEY, Lease())
        who.remember(("client", "other"), Lease())
        who.leave_block(KEY)

    asyncio.run(work())
    gc.collect()
    assert gone[0]() is None


def test_a_task_whose_blocks_are_left_in_another_order_is_not_kept() -> None:
    gone: list[weakref.ref[Any]] = []

    async def work() -> None:
        gone.append(weakref.ref(asyncio.current_task()))
        who = identity()
        who.enter_block(("client", "a"), Lease())
        another: tuple[object, str] = ("client", str(b"a", "ascii"))
        who.leave_block(another)  # an equal key, of another lock object

    asyncio.run(work())
    gc.collect()
    assert gone[0]() is None


def test_it_is_shown_with_its_name_on_one_short_line() -> None:
    assert identity().display() == f"thread {threading.current_thread().name}"
    shown: list[str] = []
    thread = threading.Thread(target=lambda: shown.append(identity().display()), name="one\ntwo" + "x" * 99)
    thread.start()
    thread.join()
    assert shown[0].startswith("thread one twoxx")
    assert len(shown[0]) < 80

    async def main() -> str:
        return identity().display()

    async def named() -> str:
        return await asyncio.create_task(main(), name="worker 7")

    assert asyncio.run(named()) == "task worker 7"


def by_hand(locks: Locks) -> None:
    locks.multi("a", "b").acquire(wait=0)


def in_a_block(locks: Locks) -> None:
    with locks.multi("a", "b", wait=0):
        pass


@pytest.mark.parametrize("use", [by_hand, in_a_block])
def test_a_task_that_could_not_have_several_locks_does_not_touch_what_another_task_holds(
    use: Callable[[Locks], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a task that holds nothing is used again, perhaps by a task in another thread, at any moment."""
    lent: list[Identity] = []
    tidy = Identity._tidy

    def tidy_and_lend(who: Identity) -> None:
        tidy(who)
        if who.task is None and not lent:
            lent.append(task_identity("another"))
            assert lent == [who]
            who.enter_block(KEY, lease)

    async def fail() -> None:
        with pytest.raises(LockTimeout):
            use(locks)

    with Locks("memory://several") as locks, Locks("memory://several") as stranger:
        lease = stranger.lock("mine").acquire()
        with stranger.lock("b"), monkeypatch.context() as patch:
            patch.setattr(Identity, "_tidy", tidy_and_lend)
            asyncio.run(fail())
        assert not lease.closed
        assert lent.pop().leave_block(KEY) is lease
        lease.release()
