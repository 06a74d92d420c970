"""What completion shows, and the hints for names and arguments of other libraries."""

from __future__ import annotations

from typing import Any

import pytest

import holdtight
from holdtight import AsyncLocks, Locks
from holdtight.base import habits, public

CLIENT = {
    *(
        "adopt",
        "audit",
        "bless",
        "doctor",
        "events",
        "force_release",
        "inspect",
        "leader",
        "list",
        "lock",
        "multi",
        "once",
        "rwlock",
        "semaphore",
        "single_flight",
        "synchronized",
    ),
}
LOCK = {"acquire", "hold", "inspect", "locked", "name", "try_acquire"}
READ_WRITE = {"inspect", "locked", "name", "read", "write"}
LEASE = {
    *(
        "acks",
        "check",
        "degraded",
        "detach",
        "downgrade",
        "fence",
        "fences",
        "kind",
        "lost",
        "name",
        "nodes",
        "on_lost",
    ),
    *("owner", "reason", "release", "remaining", "renew", "ttl", "wait_lost"),
}


def shown(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("__")}


@pytest.mark.parametrize(("client", "end"), [(Locks, "close"), (AsyncLocks, "aclose")])
@pytest.mark.parametrize("target", ["memory://", ["redis://a", "redis://b", "redis://c"]], ids=["server", "quorum"])
def test_completion_shows_the_public_verbs_and_nothing_else(client: Any, end: str, target: Any) -> None:
    locks = client(target)
    assert shown(locks) == CLIENT | {end}
    assert shown(locks.lock("a")) == LOCK
    assert shown(locks.multi("a", "b")) == LOCK
    assert shown(locks.rwlock("a")) == READ_WRITE
    assert shown(locks.rwlock("a").read()) == LOCK
    if target == "memory://":
        assert shown(locks.semaphore("s", permits=1)) == LOCK
    for each in (locks, locks.lock("a"), locks.multi("a", "b"), locks.rwlock("a")):
        for name in shown(each):
            getattr(each, name)
    assert "__class__" in dir(locks)  # what tools look for is still there
    if client is Locks:
        locks.close()
    else:
        locks.discard()


def test_completion_of_leases() -> None:
    with Locks("memory://") as locks:
        for lock in (locks.lock("a"), locks.rwlock("b").read(), locks.semaphore("c", permits=2), locks.multi("d", "e")):
            with lock as lease:
                assert shown(lease) == LEASE


def test_completion_of_the_package() -> None:
    assert shown(holdtight) == set(holdtight.__all__)
    assert {"AsyncLocks", "Duration", "Target"} <= set(holdtight.__all__)
    for name in holdtight.__all__:
        getattr(holdtight, name)


HABITS: list[tuple[str, type[Exception], str]] = [
    ('Locks("memory://", timeout=5)', TypeError, "connect_timeout="),
    ('Locks(url="memory://")', TypeError, "first argument"),
    ('Locks("memory://", password="x")', TypeError, "credentials="),
    ('Locks("memory://", prefix="x")', TypeError, "namespace="),
    ('Locks("memory://", decode_responses=True)', TypeError, "leave it out"),
    ('Locks("memory://", conect_timeout=5)', TypeError, "do you mean connect_timeout="),
    ('AsyncLocks("memory://", host="x")', TypeError, "redis://"),
    ('locks.lock("a", timeout=5)', TypeError, "ttl="),
    ('locks.lock("a", blocking_timeout=5)', TypeError, "wait="),
    ('locks.lock("a", expire=5)', TypeError, "ttl="),
    ('locks.lock("a", auto_renewal=True)', TypeError, "renew="),
    ('locks.lock("a", ttl_ms=250)', TypeError, 'ttl="250ms"'),
    ('locks.lock("a", sleep=0.1)', TypeError, "do not poll"),
    ('locks.lock("a", thread_local=False)', TypeError, "any thread may release"),
    ('locks.lock("a", blocking=False)', TypeError, "try_acquire()"),
    ('locks.lock("a", wiat=5)', TypeError, "do you mean wait="),
    ('locks.lock("a", colour="red")', TypeError, "it has ttl=, wait="),
    ('locks.rwlock("a", timeout=5)', TypeError, "ttl="),
    ('locks.rwlock("a").read(timeout=5)', TypeError, "ttl="),
    ('locks.semaphore("a", permits=2, limit=2)', TypeError, "permits="),
    ('locks.multi("a", "b", blocking_timeout=5)', TypeError, "wait="),
    ('locks.lock("a").acquire(timeout=5)', TypeError, "wait="),
    ('locks.lock("a").acquire(blocking=False)', TypeError, "try_acquire()"),
    ('locks.lock("a").acquire(ttl=5)', TypeError, "belongs to the lock"),
    ('locks.lock("a").hold(timeout=5)', TypeError, "wait="),
    ('locks.multi("a", "b").acquire(blocking_timeout=5)', TypeError, "wait="),
    ('locks.semaphore("a", permits=2).acquire(2, timeout=5)', TypeError, "wait="),
    ('locks.lock("a").release()', AttributeError, "lease.release()"),
    ('locks.lock("a").extend(5)', AttributeError, "lease.renew(ttl)"),
    ('locks.lock("a").owned()', AttributeError, "lease.check()"),
    ('locks.multi("a", "b").release()', AttributeError, "lease.release()"),
    ('locks.rwlock("a").acquire()', AttributeError, ".read()"),
    ("lease.extend(5)", AttributeError, "lease.renew(ttl)"),
    ("lease.token", AttributeError, "lease.fence"),
    ('locks.acquire("a")', AttributeError, "locks.lock(name).acquire()"),
    ('locks.release("a")', AttributeError, "with locks.lock(name)"),
]


@pytest.mark.parametrize(("typed", "error", "hint"), HABITS, ids=[typed for typed, *_ in HABITS])
def test_a_habit_from_elsewhere_is_told_the_word_that_is_meant_here(
    typed: str, error: type[Exception], hint: str
) -> None:
    with Locks("memory://") as locks, locks.lock("held") as lease, pytest.raises(error) as raised:
        eval(typed, {"Locks": Locks, "AsyncLocks": AsyncLocks, "locks": locks, "lease": lease})
    assert hint in str(raised.value)


def test_an_unknown_word_of_a_lock_that_was_made_before_is_refused_too() -> None:
    with Locks("memory://") as locks:
        locks.lock("a")
        wrong: dict[str, Any] = {"timeout": 5}
        with pytest.raises(TypeError, match="ttl="):
            locks.lock("a", **wrong)


@pytest.mark.parametrize(
    ("called", "of"),
    [
        ("client", public.PublicClient),
        ("lock", public.PublicLock),
        ("rwlock", public.PublicReadWriteLock),
        ("lease", public.PublicLease),
    ],
)
def test_every_missing_method_has_a_hint(called: str, of: type) -> None:
    words = {name for name, value in vars(of).items() if isinstance(value, public.Missing)}
    assert words == set(habits.METHODS[called])


def test_a_missing_method_is_missing_for_hasattr() -> None:
    with Locks("memory://") as locks:
        assert not hasattr(locks.lock("a"), "release")
        assert getattr(locks.lock("a"), "extend", None) is None
