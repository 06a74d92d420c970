"""Lock objects: configuration, cached, immutable; and re-entry."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdtight import DeadlockDetected, Lease, LeaseLost, Lock, Locks
from holdtight.base import process
from holdtight.base.clock import boottime
from holdtight.base.identity import Identity
from holdtight.base.recent import YOUNG
from holdtight.base.values import LossReason
from holdtight.clients.terms import LockTerms
from holdtight.config.settings import Options
from holdtight.grants.tenure import Tenure


@pytest.fixture
def locks() -> Locks:
    return Locks("redis://127.0.0.1:1", ttl=5, wait=2, label="shop")


def test_a_lock_takes_what_is_not_said_from_its_client(locks: Locks) -> None:
    lock = locks.lock("orders")
    assert lock.name == "orders"
    assert lock.options == Options(ttl=5.0, wait=2.0, reentrant=False, renew=True, max_hold=None, label="shop")
    assert locks.lock("orders", wait=None, label=None).options.wait is None
    assert locks.lock("orders", wait=None, label=None).options.label is None


def test_the_same_words_give_the_same_object(locks: Locks) -> None:
    assert locks.lock("orders", ttl=3, label="a") is locks.lock("orders", ttl=3, label="a")
    assert locks.lock("orders", ttl=3) is not locks.lock("orders", ttl=4)
    assert locks.lock("orders") is not locks.lock("other")
    assert locks.lock("orders", ttl="3s").options == locks.lock("orders", ttl=timedelta(seconds=3)).options


@pytest.mark.parametrize("argument", ["ttl", "wait", "max_hold"])
def test_a_bool_is_no_duration_though_an_equal_number_was_given_before(locks: Locks, argument: str) -> None:
    def lock(value: Any) -> object:
        given: dict[str, Any] = {argument: value}
        return locks.lock("orders", **given)

    lock(1)
    lock(1.0)
    with pytest.raises(ValueError, match=argument):
        lock(True)


@pytest.mark.parametrize(("argument", "right", "wrong"), [("reentrant", False, 0), ("renew", True, 1)])
def test_a_number_is_no_bool_though_an_equal_bool_was_given_before(
    locks: Locks, argument: str, right: Any, wrong: Any
) -> None:
    locks.lock("orders", **{argument: right})
    with pytest.raises(TypeError, match=argument):
        locks.lock("orders", **{argument: wrong})


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": "a\nb"}, ValueError),
        ({"name": "a" * 513}, ValueError),
        ({"name": None}, TypeError),
        ({"ttl": 0.05}, ValueError),
        ({"ttl": [1]}, TypeError),
        ({"ttl": None}, TypeError),
        ({"wait": -1}, ValueError),
        ({"wait": float("nan")}, ValueError),
        ({"max_hold": 0}, ValueError),
        ({"max_hold": "x"}, ValueError),
        ({"label": 5}, TypeError),
        ({"label": "a\nb"}, ValueError),
        ({"reentrant": 1}, TypeError),
        ({"renew": None}, TypeError),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_every_time(locks: Locks, given: dict[str, Any], error: type[Exception]) -> None:
    for _ in range(2):
        with pytest.raises(error, match=next(iter(given))):
            locks.lock(**{"name": "orders", **given})


def test_a_name_that_cannot_be_hashed_is_named_too(locks: Locks) -> None:
    with pytest.raises(TypeError, match="name"):
        locks.lock(["x"])  # type: ignore[arg-type]


def test_a_short_ttl_needs_renew_false(locks: Locks) -> None:
    assert locks.lock("orders", ttl="10ms", renew=False).options.ttl == 0.01


def test_max_hold_shortens_the_ttl_that_is_asked_for(locks: Locks) -> None:
    options = locks.lock("orders", ttl=30, max_hold=1).options
    assert options.max_hold == 1.0
    assert 1.0 < options.ttl < 1.1
    assert locks.lock("orders", ttl=5, max_hold=60).options.ttl == 5.0


def test_a_lock_object_is_immutable(locks: Locks) -> None:
    lock = locks.lock("orders")
    with pytest.raises(AttributeError):
        lock.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        lock.options.ttl = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        lock.anything = 1  # type: ignore[attr-defined]


MAKERS: dict[str, Callable[[Locks, int], object]] = {
    "lock": lambda locks, number: locks.lock(f"order:{number}"),
    "lock, one name, many options": lambda locks, number: locks.lock("order", wait=number),
    "read": lambda locks, number: locks.rwlock(f"order:{number}").read(),
    "write": lambda locks, number: locks.rwlock(f"order:{number}").write(),
    "semaphore": lambda locks, number: locks.semaphore(f"order:{number}", permits=3),
    "semaphore, one name, many options": lambda locks, number: locks.semaphore("order", permits=number + 1),
    "sibling": lambda locks, number: locks.lock(f"order:{number}").reading(),
    "sibling, one name, many options": lambda locks, number: locks.semaphore("seats", permits=9999).asking_for(
        number + 1
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_client_keeps_two_generations_of_lock_objects_whatever_their_kind(locks: Locks, kind: str) -> None:
    make = MAKERS[kind]
    for number in range(3 * YOUNG):
        make(locks, number)
    most = 2 * YOUNG
    per_name = 2 if kind in ("write", "sibling") else 1  # a read-write lock has its reader, a sibling its first lock
    alive = [each for each in gc.get_objects() if isinstance(each, Lock) and each.client is locks]
    assert 0 < len(alive) <= per_name * most + 1
    assert sum(isinstance(each, LockTerms) for each in gc.get_referents(*_caches(locks))) <= 2 * most


def _caches(locks: Locks) -> list[object]:
    caches = (locks._kept, locks._terms, locks._recent)
    return [each for cache in caches for each in (cache.young, cache.older)]


def test_what_is_used_again_stays_while_others_come_and_go(locks: Locks) -> None:
    hot, seats = locks.rwlock("hot"), locks.semaphore("hot", permits=2)
    for number in range(4 * YOUNG):
        locks.rwlock(f"order:{number}")
        if number % (YOUNG // 2) == 0:
            assert locks.rwlock("hot") is hot
            assert locks.semaphore("hot", permits=2) is seats
    assert locks.rwlock("order:0") is locks.rwlock("order:0")


@pytest.mark.parametrize("kind", ["lock", "cohort", "read", "semaphore"])
def test_an_idle_lock_object_is_small(locks: Locks, kind: str) -> None:
    one: Any = {
        "lock": locks.lock("a"),
        "cohort": locks.lock("a", cohort=True),
        "read": locks.rwlock("a").read(),
        "semaphore": locks.semaphore("a", permits=2),
    }[kind]
    names = [f"order:{number:06}" for number in range(1000)]
    gc.collect()
    tracemalloc.start()
    try:
        kept = [type(one)(locks, name, one.terms) for name in names]
        size = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    assert size <= 370


def test_a_lock_says_its_name_and_ttl(locks: Locks) -> None:
    assert repr(locks.lock("orders")) == "<Lock 'orders' ttl=5>"


def test_a_closed_client_says_so_before_anything_is_sent(locks: Locks) -> None:
    locks.close()
    locks.close()
    with pytest.raises(RuntimeError, match="is closed"):
        locks.lock("orders").try_acquire()


# Entering again.


def held(locks: Locks, who: Identity, *, block: bool, reentrant: bool, name: str = "orders") -> Tenure:
    lock = locks.lock(name, reentrant=reentrant)
    tenure = Tenure(lock.terms, lock.prepared, lambda hook: None, b"o" * 24, 7, boottime(), 0)
    if reentrant:
        who.remember(lock.key, tenure)
    if block:
        lease = Lease(lock, tenure)
        lease._close()  # not this test's to warn about
        tenure.entered = 1
        who.enter_block(lock.key, lease)
    return tenure


def test_a_caller_that_holds_nothing_asks_the_server(locks: Locks) -> None:
    assert locks.lock("orders").entered_by(Identity()) is None
    assert locks.lock("orders", reentrant=True).entered_by(Identity()) is None


def test_a_lock_held_in_a_block_of_ones_own_is_a_deadlock_at_once(locks: Locks) -> None:
    who = Identity()
    held(locks, who, block=True, reentrant=False)
    with pytest.raises(DeadlockDetected, match="by this very thread"):
        locks.lock("orders").entered_by(who)
    assert locks.lock("other").entered_by(who) is None
    assert Locks("redis://127.0.0.1:2").lock("orders").entered_by(who) is None
    assert locks.lock("orders").entered_by(Identity()) is None


def test_a_lock_held_outside_a_block_may_be_waited_for(locks: Locks) -> None:
    who = Identity()
    held(locks, who, block=False, reentrant=True)
    assert locks.lock("orders").entered_by(who) is None


@pytest.mark.parametrize("block", [True, False])
def test_re_entry_shares_the_grant_whatever_the_other_options(locks: Locks, block: bool) -> None:
    who = Identity()
    tenure = held(locks, who, block=block, reentrant=True)
    again = locks.lock("orders", reentrant=True, ttl=9)
    assert again.entered_by(who) is tenure
    lease = Lease.again(again, tenure, who)
    assert (lease.tenure, lease.who, tenure.entered) == (tenure, who, 2)
    assert not lease._close()
    assert tenure.entered == 1


def test_what_was_let_go_is_not_entered_again_however_far_its_end_has_come(locks: Locks) -> None:
    who = Identity()
    held(locks, who, block=False, reentrant=True).entered = 0  # and there an interrupt came
    assert locks.lock("orders", reentrant=True).entered_by(who) is None


def test_re_entry_into_a_lost_grant_is_a_loss(locks: Locks) -> None:
    who = Identity()
    held(locks, who, block=True, reentrant=True).lose(LossReason.TAKEN)
    with pytest.raises(LeaseLost) as caught:
        locks.lock("orders", reentrant=True).entered_by(who)
    assert caught.value.reason is LossReason.TAKEN


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_lease_that_was_released_within_its_block_is_asked_for_anew(locks: Locks, reentrant: bool) -> None:
    who = Identity()
    held(locks, who, block=True, reentrant=reentrant).ended = True
    assert locks.lock("orders", reentrant=reentrant).entered_by(who) is None


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forked_child_owns_nothing_and_waits_like_anyone_else(
    locks: Locks, reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = Identity()
    held(locks, who, block=True, reentrant=reentrant)
    monkeypatch.setattr(process.current, "epoch", process.current.epoch + 1)
    assert locks.lock("orders", reentrant=reentrant).entered_by(who) is None


# A process may hold a hundred thousand of them.


def test_a_request_that_is_packed_once_is_not_kept_and_from_the_second_time_on_it_is(locks: Locks) -> None:
    prepared: Any = locks.lock("a", ttl=30).prepared
    first = prepared.pack_attempt(queue=True)
    assert prepared.attempt is None
    assert prepared.pack_attempt(queue=True) == first == prepared.attempt
    prepared.pack_attempt(queue=False)
    assert prepared.ask is None, "each of them is counted by itself"
    assert prepared.pack_attempt(queue=False) == prepared.ask != first
    released = prepared.pack_release()
    assert prepared.release is None
    assert prepared.pack_release() == released == prepared.release


def test_locks_of_equal_options_share_them_and_what_is_derived_from_their_ttl(locks: Locks) -> None:
    one, other = locks.lock("a", ttl=7.5), locks.lock("b", ttl=7.5)
    assert one.options is other.options
    assert one.prepared.valid is other.prepared.valid
    assert one.terms.interval is other.terms.interval
    assert locks.lock("c", ttl=7.5, label="x").options is not one.options
