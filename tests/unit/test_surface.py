"""What completion shows, and the hints for names and arguments of other libraries."""

from __future__ import annotations

import asyncio
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
TERM = LEASE | {"proclaim", "resign", "since"}
LEADER = {"campaign", "contenders", "current", "observe", "on_change", "run", "stop"}
PACKAGE = {
    # What api.md names: clients, kinds, leases.
    *("AsyncLease", "AsyncLock", "AsyncLocks", "AsyncMulti", "AsyncReadWriteLock", "AsyncSemaphore"),
    *("Lease", "Lock", "Locks", "Multi", "ReadWriteLock", "Semaphore"),
    # Errors.
    *("ClockDrift", "DeadlockDetected", "FlightFailed", "JobSkipped", "LeaseLost", "LockError", "LockTimeout"),
    *("NotOwner", "NotPermitted", "NotSupported", "OutOfMemory", "QueueFull", "QuorumNotReached", "ScriptError"),
    *("StaleFence", "Unavailable", "WrongTransaction"),
    # "Types that are exported".
    *("AuditRecord", "Backoff", "Drift", "Duration", "Finding", "Holder", "Kind", "Leadership", "LockInfo"),
    *("LossReason", "Peek", "Profile", "Run", "Severity", "Skipped", "Target", "Term", "Waiter", "docs"),
    # Jobs.
    *("AsyncLeader", "AsyncTerm", "Leader", "current_lease"),
}


def shown(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("__")}


@pytest.mark.parametrize(("client", "end"), [(Locks, "close"), (AsyncLocks, "aclose")])
@pytest.mark.parametrize("target", ["memory://", ["redis://a", "redis://b", "redis://c"]], ids=["server", "quorum"])
def test_completion_shows_the_public_verbs_and_nothing_else(client: Any, end: str, target: Any) -> None:
    locks = client(target)
    try:
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
    finally:
        locks.close() if client is Locks else locks.discard()


KINDS: list[Any] = [
    lambda locks: locks.lock("a"),
    lambda locks: locks.rwlock("b").read(),
    lambda locks: locks.semaphore("c", permits=2),
    lambda locks: locks.multi("d", "e"),
]


@pytest.mark.parametrize("of", KINDS)
def test_completion_of_leases(of: Any) -> None:
    with Locks("memory://") as locks, of(locks) as lease:
        assert shown(lease) == LEASE

    async def main() -> None:
        async with AsyncLocks("memory://") as locks, of(locks) as lease:
            assert shown(lease) == LEASE

    asyncio.run(main())


def test_completion_of_leases_of_a_quorum(start_server: Any) -> None:
    urls = [start_server().url for _ in range(3)]
    with Locks(urls, restart_guard=False) as locks, locks.lock("a") as lease:
        assert shown(lease) == LEASE

    async def main() -> None:
        async with AsyncLocks(urls, restart_guard=False) as locks, locks.lock("a") as lease:
            assert shown(lease) == LEASE

    asyncio.run(main())


def test_completion_of_leaders_and_their_terms() -> None:
    with Locks("memory://") as locks:
        leader = locks.leader("a")
        with leader as term:
            assert shown(term) == TERM
            assert shown(leader) == LEADER

    async def main() -> None:
        async with AsyncLocks("memory://") as locks:
            leader = locks.leader("a")
            async with leader as term:
                assert shown(term) == TERM
                assert shown(leader) == LEADER

    asyncio.run(main())


@pytest.mark.parametrize("client", [Locks, AsyncLocks])
def test_completion_of_jobs(client: Any) -> None:
    locks = client("memory://")

    def blocking(number: int) -> int:
        return number

    async def awaited(number: int) -> int:
        return number

    function: Any = blocking if client is Locks else awaited
    plain = shown(function) | {"name"}
    assert shown(locks.synchronized("a")(function)) == plain
    assert shown(locks.once("a")(function)) == plain | {"forget", "last"}
    flight = locks.single_flight("a", ttl=60)
    assert shown(flight) == {"get_or_create"}
    assert shown(flight(function)) == plain | {"expire", "invalidate", "peek", "refresh"}
    if client is Locks:
        locks.close()
    else:
        locks.discard()


def test_completion_of_the_package() -> None:
    assert shown(holdtight) == PACKAGE
    assert set(holdtight.__all__) == PACKAGE
    for name in PACKAGE:
        getattr(holdtight, name)


@pytest.mark.parametrize("of", [Locks, AsyncLocks, *(getattr(holdtight, name) for name in ("Lock", "AsyncLock"))])
def test_an_internal_word_that_completion_shows_is_seen(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "public", (*of.public, "after_fork"))
    colour, end = (AsyncLocks, "aclose") if of.__name__.startswith("Async") else (Locks, "close")
    with pytest.raises(AssertionError, match="after_fork"):
        test_completion_shows_the_public_verbs_and_nothing_else(colour, end, "memory://")


@pytest.mark.parametrize("kind", ["Lease", "AsyncLease"])
def test_a_verb_that_completion_of_leases_leaves_out_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = getattr(holdtight, kind)
    monkeypatch.setattr(of, "public", tuple(name for name in of.public if name != "renew"))
    with pytest.raises(AssertionError, match="renew"):
        test_completion_of_leases(lambda locks: locks.lock("a"))


def test_a_module_that_completion_of_the_package_shows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdtight, "__all__", [*holdtight.__all__, "keeper"])
    with pytest.raises(AssertionError, match="keeper"):
        test_completion_of_the_package()


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
    ('locks.semaphore("a", permits=2, permit=3)', TypeError, "do you mean permits="),
    (
        'locks.semaphore("a", permits=2, colour="red")',
        TypeError,
        "it has permits=, ttl=, wait=, renew=, max_hold=, label=",
    ),
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
    ('locks.rwlock("a").write(blocking=False)', TypeError, "try_acquire()"),
    ('locks.semaphore("a", permits=2, expire=5)', TypeError, "ttl="),
    ('locks.synchronized("a", timeout=5)', TypeError, "ttl="),
    ('locks.synchronized("a", blocking=False)', TypeError, "wait=0"),
    ('locks.once("a", expire=5)', TypeError, "ttl="),
    ('locks.once("a", interval="1h")', TypeError, "at_least="),
    ('locks.once("a", at_most="1h")', TypeError, "max_hold="),
    ('locks.single_flight("a", ttl=5, timeout=5)', TypeError, "lease_ttl="),
    ('locks.single_flight("a", ttl=5, blocking_timeout=5)', TypeError, "wait="),
    ('alocks.synchronized("a", timeout=5)', TypeError, "ttl="),
    ('alocks.once("a", blocking=False)', TypeError, "wait=0"),
    ('alocks.single_flight("a", ttl=5, expire=5)', TypeError, "lease_ttl="),
    ('locks.leader("a", timeout=5)', TypeError, "ttl="),
    ('locks.leader("a", lease_duration=5)', TypeError, "ttl="),
    ('locks.leader("a", renew_deadline=5)', TypeError, "grace="),
    ('locks.leader("a").campaign(timeout=5)', TypeError, "wait="),
    ('locks.leader("a").campaign(blocking=False)', TypeError, "wait=0"),
    ('locks.leader("a").run(print, pauze=5)', TypeError, "do you mean pause="),
    ('locks.leader("a").run(print, timeout=5)', TypeError, "belong to the leader"),
    ('locks.leader("a").is_leader()', AttributeError, "term.lost"),
    ('locks.leader("a").release()', AttributeError, "leader.stop()"),
    ('alocks.leader("a", timeout=5)', TypeError, "ttl="),
    ('alocks.leader("a").start()', AttributeError, "leader.run(fn)"),
    ("lease.renew(timeout=5)", TypeError, "never adds"),
    ("lease.renew(additional_time=5)", TypeError, "never adds"),
    ("several.renew(timeout=5)", TypeError, "never adds"),
    ("lease.detach(timeout=5)", TypeError, "for adopting"),
    ('locks.adopt("text", timeout=5)', TypeError, "ttl="),
    ("locks.synchronized(print)()", TypeError, '@locks.synchronized("name")'),
    ("locks.once(print)(5)", TypeError, '@locks.once("name")'),
    ('locks.synchronized("a")("b")', TypeError, "decorates a function"),
    ("locks.lock(print)", TypeError, '@locks.lock("name")'),
    ('locks.multi(["a", "b"])', TypeError, "multi(*names)"),
    ('locks.lock("a", ttl=30_000_000)', ValueError, "in seconds"),
    ("lease.extend(5)", AttributeError, "lease.renew(ttl)"),
    ("lease.token", AttributeError, "lease.fence"),
    ('locks.acquire("a")', AttributeError, "locks.lock(name).acquire()"),
    ('locks.release("a")', AttributeError, "with locks.lock(name)"),
    # Of asyncio; what is awaited is in AWAITED.
    ('AsyncLocks("memory://", timeout=5)', TypeError, "connect_timeout="),
    ('alocks.lock("a", timeout=5)', TypeError, "ttl="),
    ('alocks.lock("a", blocking_timeout=5)', TypeError, "wait="),
    ('alocks.lock("a", wiat=5)', TypeError, "do you mean wait="),
    ('alocks.lock("a", ttl=30_000_000)', ValueError, "in seconds"),
    ('alocks.rwlock("a", expire=5)', TypeError, "ttl="),
    ('alocks.rwlock("a").read(timeout=5)', TypeError, "ttl="),
    ('alocks.rwlock("a").acquire()', AttributeError, ".read()"),
    ('alocks.semaphore("a", permits=2, limit=2)', TypeError, "permits="),
    ('alocks.multi("a", "b", blocking_timeout=5)', TypeError, "wait="),
    ('alocks.multi(["a", "b"])', TypeError, "multi(*names)"),
    ('alocks.multi("a", "b").release()', AttributeError, "lease.release()"),
    ('alocks.lock("a").hold(timeout=5)', TypeError, "wait="),
    ('alocks.lock("a").release()', AttributeError, "lease.release()"),
    ('alocks.lock("a").extend(5)', AttributeError, "lease.renew(ttl)"),
    ('alocks.lock("a").owned()', AttributeError, "lease.check()"),
    ('alocks.acquire("a")', AttributeError, "locks.lock(name).acquire()"),
    ("alocks.lock(print)", TypeError, '@locks.lock("name")'),
]


@pytest.mark.parametrize(("typed", "error", "hint"), HABITS, ids=[typed for typed, *_ in HABITS])
def test_a_habit_from_elsewhere_is_told_the_word_that_is_meant_here(
    typed: str, error: type[Exception], hint: str
) -> None:
    alocks = AsyncLocks("memory://")
    with Locks("memory://") as locks, locks.lock("held") as lease, locks.multi("b", "c") as several:
        names = {"Locks": Locks, "AsyncLocks": AsyncLocks, "locks": locks, "alocks": alocks}
        with pytest.raises(error) as raised:
            eval(typed, {**names, "lease": lease, "several": several})
    alocks.discard()
    assert hint in str(raised.value)


AWAITED: list[tuple[str, str]] = [
    ('locks.lock("a").acquire(timeout=5)', "wait="),
    ('locks.lock("a").acquire(blocking=False)', "try_acquire()"),
    ('locks.lock("a").acquire(ttl=5)', "belongs to the lock"),
    ('locks.semaphore("a", permits=2).acquire(2, timeout=5)', "wait="),
    ('locks.multi("a", "b").acquire(blocking_timeout=5)', "wait="),
    ('locks.adopt("text", timeout=5)', "ttl="),
    ("lease.renew(timeout=5)", "never adds"),
    ("lease.renew(additional_time=5)", "never adds"),
    ("lease.detach(timeout=5)", "for adopting"),
    ('locks.leader("b").campaign(timeout=5)', "wait="),
    ('locks.leader("b").run("text", pauze=5)', "do you mean pause="),
    ('locks.leader("b").run("text", ttl=5)', "belong to the leader"),
]


@pytest.mark.parametrize(("typed", "hint"), AWAITED, ids=[typed for typed, _ in AWAITED])
def test_words_that_a_coroutine_does_not_have_are_told_when_it_is_awaited(typed: str, hint: str) -> None:
    async def main() -> None:
        async with AsyncLocks("memory://") as locks, locks.lock("held") as lease:
            call = eval(typed, {"locks": locks, "lease": lease})
            with pytest.raises(TypeError) as raised:
                await call
            assert hint in str(raised.value)

    asyncio.run(main())


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
        ("leader", public.PublicLeader),
    ],
)
def test_every_missing_method_has_a_hint(called: str, of: type) -> None:
    words = {name for name, value in vars(of).items() if isinstance(value, public.Missing)}
    assert words == set(habits.METHODS[called])


@pytest.mark.parametrize("client", [Locks, AsyncLocks])
def test_a_leader_prints_its_name(client: Any) -> None:
    locks = client("memory://")
    assert repr(locks.leader("poller", ttl="20s")) == f"<{type(locks.leader('poller')).__name__} 'poller' ttl=20>"
    if client is Locks:
        locks.close()
    else:
        locks.discard()


def test_a_missing_method_is_missing_for_hasattr() -> None:
    with Locks("memory://") as locks:
        assert not hasattr(locks.lock("a"), "release")
        assert getattr(locks.lock("a"), "extend", None) is None
