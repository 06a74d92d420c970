"""What users of redis-py's lock rely on: every test runs with redis-py's own locks and with ours."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest
from redis.exceptions import LockError, LockNotOwnedError

from tests.compat.face import CLASSES, Colour, Face, Maker, OpenFace
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


@pytest.fixture
def face(server: RunningServer, open_face: OpenFace, maker: Maker) -> Face:
    return open_face(server.url, maker)


@pytest.fixture
def other(server: RunningServer, open_face: OpenFace, maker: Maker) -> Face:
    """A lock of the other maker."""
    return open_face(server.url, "ours" if maker == "redis-py" else "redis-py")


def test_the_key_is_the_name_and_the_value_is_the_token(server: RunningServer, face: Face) -> None:
    lock = face.lock("a", timeout=10)
    assert lock.acquire() is True
    token = face.call(lambda: lock.local.token)
    assert isinstance(token, bytes)
    assert len(token) == 32
    assert int(token, 16)
    assert server.keys() == ["a"]
    assert server.command("GET", "a") == token.decode()
    assert 9_000 < int(server.command("PTTL", "a")) <= 10_000
    lock.release()
    assert face.call(lambda: lock.local.token) is None
    assert server.keys() == []


def test_it_excludes_locks_of_either_maker(face: Face, other: Face) -> None:
    with face.lock("a", timeout=10) as held:
        for each in (face, other):
            second = each.lock("a", timeout=10)
            assert second.acquire(blocking=False) is False
            assert second.locked() is True
            assert second.owned() is False
        assert held.owned() is True
    assert other.lock("a").locked() is False
    assert other.lock("a", timeout=10).acquire(blocking=False) is True


def test_without_a_timeout_it_never_expires(server: RunningServer, face: Face) -> None:
    with face.lock("a"):
        assert server.command("PTTL", "a") == -1
    assert server.keys() == []


def test_a_fraction_of_a_second_is_a_timeout(server: RunningServer, face: Face) -> None:
    assert face.lock("a", timeout=0.05).acquire()
    wait_for(lambda: not server.keys())


@pytest.mark.parametrize("name", ["ключ", b"\xff\x00 bytes", memoryview(b"memory")])
def test_names_may_be_text_or_bytes(server: RunningServer, face: Face, maker: Maker, name: Any) -> None:
    lock = face.lock(name, timeout=10)
    lock.acquire()
    raw = name.encode() if isinstance(name, str) else bytes(name)
    with server.connect() as client:
        assert client.call("EXISTS", raw) == 1
    lock.release()


def test_a_token_of_the_callers_own(server: RunningServer, face: Face) -> None:
    for given in ("mine", b"mine"):
        lock = face.lock("a", timeout=10)
        assert lock.acquire(token=given) is True
        assert server.command("GET", "a") == "mine"
        assert face.call(partial(getattr, lock.local, "token")) == b"mine"
        assert lock.owned()
        assert 9_000 < int(server.command("PTTL", "a")) <= 10_000
        lock.release()
        assert server.keys() == []


def test_a_token_of_the_callers_own_does_not_let_in_another_with_the_same(face: Face, other: Face) -> None:
    assert face.lock("a", timeout=10).acquire(token="same")
    assert not face.lock("a", timeout=10).acquire(token="same", blocking=False)
    assert not other.lock("a", timeout=10).acquire(token="same", blocking_timeout=0.05)


def test_a_token_can_be_handed_over_and_set(server: RunningServer, face: Face, other: Face) -> None:
    first = face.lock("a", timeout=10)
    first.acquire()
    token = face.call(lambda: first.local.token)
    second = other.lock("a", timeout=10)

    def set_it() -> None:
        second.local.token = token

    other.call(set_it)
    assert second.owned()
    second.extend(5)
    second.release()
    assert server.keys() == []
    with pytest.raises(LockNotOwnedError):
        first.release()


def test_extend_adds_to_the_time_left(server: RunningServer, face: Face) -> None:
    lock = face.lock("a", timeout=10)
    lock.acquire()
    assert lock.extend(10) is True
    assert 16_000 < int(server.command("PTTL", "a")) <= 20_000
    assert lock.extend(5, replace_ttl=True) is True
    assert 4_000 < int(server.command("PTTL", "a")) <= 5_000
    assert lock.extend(-2.5) is True
    assert int(server.command("PTTL", "a")) <= 2_500
    lock.release()


def test_reacquire_sets_the_time_left_to_the_timeout(server: RunningServer, face: Face) -> None:
    lock = face.lock("a", timeout=10)
    lock.acquire()
    server.command("PEXPIRE", "a", 5000)
    assert lock.reacquire() is True
    assert 9_000 < int(server.command("PTTL", "a")) <= 10_000
    lock.timeout = 20
    lock.reacquire()
    assert 19_000 < int(server.command("PTTL", "a")) <= 20_000
    lock.release()


def test_a_lock_that_is_not_held_is_a_lock_error(face: Face) -> None:
    lock = face.lock("a", timeout=10)
    for verb in (lock.release, lambda: lock.extend(1), lock.reacquire):
        with pytest.raises(LockError) as raised:
            verb()
        assert not isinstance(raised.value, LockNotOwnedError)
    lock.acquire()
    lock.release()
    with pytest.raises(LockError, match="a"):
        lock.release()


def test_a_lock_without_a_timeout_cannot_be_extended(face: Face) -> None:
    with face.lock("a") as lock:
        with pytest.raises(LockError):
            lock.extend(1)
        with pytest.raises(LockError):
            lock.reacquire()


@pytest.mark.parametrize("how", ["gone", "taken"])
def test_a_lock_that_was_lost_is_a_lock_not_owned_error(server: RunningServer, face: Face, how: str) -> None:
    lock = face.lock("a", timeout=10)
    lock.acquire()
    server.command("DEL", "a")
    if how == "taken":
        server.command("SET", "a", "somebody")
    assert not lock.owned()
    for verb in (lambda: lock.extend(1), lock.reacquire, lock.release):
        with pytest.raises(LockNotOwnedError):
            verb()
    with pytest.raises(LockError):
        lock.release()
    assert server.keys() == (["a"] if how == "taken" else [])


def test_a_block_that_cannot_be_entered_raises(face: Face) -> None:
    with face.lock("a", timeout=10):
        for options in ({"blocking": False}, {"blocking_timeout": 0.05}, {"blocking_timeout": 0}):
            with pytest.raises(LockError), face.lock("a", timeout=10, sleep=0.01, **options):
                raise AssertionError("entered")


def test_the_end_of_a_block_whose_lock_was_lost_raises_unless_told_otherwise(server: RunningServer, face: Face) -> None:
    with pytest.raises(LockNotOwnedError), face.lock("a", timeout=10):
        server.command("DEL", "a")
    with face.lock("a", timeout=10, raise_on_release_error=False):
        server.command("DEL", "a")

    def fail() -> None:
        with face.lock("a", timeout=10):
            server.command("DEL", "a")
            raise RuntimeError("of the body")

    with pytest.raises(LockNotOwnedError) as raised:
        fail()
    assert isinstance(raised.value.__context__, RuntimeError)


def test_a_block_goes_through_with_what_its_body_raised(server: RunningServer, face: Face) -> None:
    with pytest.raises(RuntimeError, match="of the body"), face.lock("a", timeout=10):
        raise RuntimeError("of the body")
    assert server.keys() == []


def test_what_the_call_says_goes_before_what_the_lock_says(face: Face, colour: Colour) -> None:
    with face.lock("a", timeout=10):
        waits = face.lock("a", timeout=10, sleep=0.01)
        assert waits.acquire(blocking=False) is False
        started = time.monotonic()
        assert waits.acquire(blocking_timeout=0.1) is False
        assert time.monotonic() - started < 5
        does_not = face.lock("a", timeout=10, blocking=False, sleep=0.01)
        assert does_not.acquire() is False
        assert does_not.acquire(blocking=True, blocking_timeout=0.05) is False
        if colour == "sync":
            assert waits.acquire(0.02, True, 0.05) is False
        else:
            assert waits.acquire(True, 0.05) is False


def test_attributes_can_be_changed(server: RunningServer, face: Face) -> None:
    lock = face.lock("a", timeout=10)
    lock.name, lock.timeout, lock.sleep, lock.blocking_timeout = "b", 20, 0.01, 0.05
    assert lock.acquire()
    assert server.keys() == ["b"]
    assert 19_000 < int(server.command("PTTL", "b")) <= 20_000
    other = face.lock("b", timeout=10)
    other.blocking = False
    assert not other.acquire()
    lock.release()


def test_the_steps_can_be_called_one_by_one(server: RunningServer, face: Face) -> None:
    lock = face.lock("a", timeout=10)
    assert lock.do_acquire(b"token") is True
    assert lock.do_acquire(b"token") is False
    assert server.command("GET", "a") == "token"
    assert face.call(lambda: lock.local.token) is None
    lock.do_release(b"token")
    assert server.keys() == []
    with pytest.raises(LockNotOwnedError):
        lock.do_release(b"token")


def test_the_errors_know_the_lock(face: Face, colour: Colour, maker: Maker) -> None:
    lock = face.lock("a", timeout=10)
    with pytest.raises(LockError) as raised:
        lock.release()
    assert raised.value.lock_name == "a"
    assert raised.value.message == str(raised.value)


# Tasks that start others

WRAPPED: dict[str, Any] = {
    "awaited": lambda work: work,
    "wait_for": lambda work: asyncio.wait_for(work, 5),
    "shield": asyncio.shield,
    "create_task": asyncio.create_task,
    "gather": asyncio.gather,
}


@pytest.mark.parametrize("colour", ["asyncio"])
@pytest.mark.parametrize("how", WRAPPED)
def test_calls_may_be_run_in_tasks_of_their_own(server: RunningServer, face: Face, maker: Maker, how: str) -> None:
    async def scene() -> None:
        wrapped = WRAPPED[how]
        lock = CLASSES[maker, "asyncio"](face.client, "a", timeout=10)

        async def take() -> None:
            await lock.acquire()

        async def give() -> None:
            await lock.release()

        for taking, giving in ((lock.acquire, lock.release), (take, give), (take, lock.release), (lock.acquire, give)):
            await wrapped(taking())
            assert server.keys() == ["a"]
            assert await wrapped(lock.owned()) in (True, [True])
            await wrapped(lock.extend(5))
            await wrapped(giving())
            assert server.keys() == []

    face.call(scene)
