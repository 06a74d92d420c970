"""The handle of a grant: its attributes, and how its end is noticed."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from typing import Any

import pytest

from holdtight import Lease, LeaseLost, NotOwner, NotSupported
from holdtight.base.values import LossReason
from tests.unit.world import World


def test_a_lease_shows_its_tenure(world: World) -> None:
    lease = world.lease(world.tenure())
    assert (lease.name, lease.fence, lease.ttl) == ("orders", 7, 10.0)
    assert lease.fences == {"orders": 7}
    assert (lease.lost, lease.reason) == (False, None)
    lease.check()
    assert "fence=7" in repr(lease)
    lease._close()
    assert lease.remaining() == 0.0
    with pytest.raises(NotOwner):
        lease.check()


def test_check_raises_the_loss_with_its_reason(world: World) -> None:
    lease = world.lease(world.tenure())
    lease.tenure.lose(LossReason.FORCED)
    with pytest.raises(LeaseLost) as caught:
        lease.check()
    assert caught.value.reason is lease.reason is LossReason.FORCED


def test_a_callback_gets_the_lease_and_only_a_callable_is_taken(world: World) -> None:
    lease, got = world.lease(world.tenure()), list[Lease]()
    lease.on_lost(got.append)
    lease.tenure.lose(LossReason.TAKEN)
    for hook in world.delivered:
        hook()
    assert got == [lease]
    with pytest.raises(TypeError, match="callback must be callable"):
        lease.on_lost(5)  # type: ignore[arg-type]


def test_a_lease_refuses_to_be_pickled_and_to_be_detached_while_entered_twice(world: World) -> None:
    lease = world.lease(world.tenure())
    with pytest.raises(TypeError, match="detach"):
        pickle.dumps(lease)
    lease.tenure.entered = 2
    with pytest.raises(NotSupported, match="entered 2 times"):
        lease.detach()
    lease._close()


def test_a_lease_that_nobody_has_any_more_is_renewed_no_more(world: World) -> None:
    lease = world.lease(tenure := world.tenure())
    leases = [lease]
    del lease
    with pytest.warns(ResourceWarning, match="'orders' was dropped without release"):
        leases.clear()
    assert not tenure.alive


def test_no_finalizer_runs_for_a_lease_that_was_released(world: World) -> None:
    """Python drops a KeyboardInterrupt that comes while one runs."""
    gc.collect()  # of what other tests left behind
    finalizers: list[str] = []

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "__del__":
            finalizers.append(frame.f_code.co_qualname)

    sys.setprofile(look)
    try:
        for _ in range(3):
            lease = world.lease(world.tenure())
            lease._close()
            del lease
            gc.collect()
    finally:
        sys.setprofile(None)
    assert finalizers == []


def test_a_leak_warning_that_is_used_again_sees_the_next_lease_dropped(world: World) -> None:
    gc.collect()  # of what other tests left behind
    first = world.lease(world.tenure())
    leak_warning = id(first.leak_warning)
    first._close()
    leases = [world.lease(tenure := world.tenure())]
    assert id(leases[0].leak_warning) == leak_warning
    with pytest.warns(ResourceWarning, match="dropped without release"):
        leases.clear()
    assert not tenure.alive
    assert first.leak_warning is None


def test_a_callback_does_not_keep_a_lease_that_nobody_has_any_more(world: World) -> None:
    lease = world.lease(tenure := world.tenure())
    lease.on_lost(print)
    leases = [lease]
    del lease
    try:
        with pytest.warns(ResourceWarning, match="dropped without release"):
            leases.clear()
        assert not tenure.alive
    finally:
        tenure.ended = True


def test_waiting_for_the_loss_ends_with_the_release(world: World) -> None:
    lease, answers = world.lease(world.tenure()), list[bool]()
    thread = threading.Thread(target=lambda: answers.append(lease.wait_lost(3)), daemon=True)
    thread.start()
    while lease.tenure._hooks is None:
        pass
    lease._close()
    lease.tenure.ended = True
    world.now += 0.25
    thread.join(2)
    assert answers == [False]


def test_a_release_that_is_interrupted_at_its_start_leaves_nothing_that_is_renewed(world: World) -> None:
    lease = world.lease(tenure := world.tenure())
    assert lease._close()
    assert not tenure.alive
    assert tenure.request(world.now) is None
