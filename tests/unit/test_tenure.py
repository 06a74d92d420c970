"""The state of one grant: when it is lost, how that is reported, and which requests it makes."""

from __future__ import annotations

import threading

import hiredis
import pytest

from holdtight import NotOwner, Unavailable
from holdtight.base import callbacks, process
from holdtight.base.values import Kind, LossReason, owner_text
from holdtight.events import HeldLong, Lost, RenewalFailed, Renewed
from holdtight.grants.manual_renewal import Renewal
from holdtight.keeper import keeper as keeper_module
from holdtight.stores.redis import script
from tests.unit.world import World


def argument(name: str, request: bytes | None) -> int:
    """One argument of a packed renewal, by the name that its script gives it."""
    assert request is not None
    reader = hiredis.Reader()
    reader.feed(request)
    argv: list[bytes] = reader.gets()
    return int(argv[3 + len(script.RENEW.keys) + script.RENEW.argv.index(name)])


def ttl_asked(request: bytes | None) -> int:
    return argument("ttl", request)


# Time.


def test_what_remains_counts_from_before_the_request_less_drift(world: World) -> None:
    tenure = world.tenure(ttl=10)
    assert tenure.deadline == pytest.approx(1009.898)
    world.now = 1004.0
    assert tenure.remaining() == pytest.approx(5.898)
    assert not tenure.lost()


def test_the_first_look_after_a_long_pause_finds_it_lost(world: World) -> None:
    tenure = world.tenure(ttl=10)
    world.now = tenure.deadline
    assert tenure.lost()
    assert tenure.reason is LossReason.EXPIRED
    assert tenure.remaining() == 0.0
    held = tenure.deadline - tenure.since
    assert world.seen == [Lost("orders", world.lease(tenure).owner, 7, LossReason.EXPIRED, held, kind=Kind.EXCLUSIVE)]


def test_a_deadline_after_unanswered_renewals_is_unreachable(world: World) -> None:
    tenure = world.tenure()
    tenure.unanswered("connection refused")
    world.now += 60
    assert tenure.lost()
    assert tenure.reason is LossReason.UNREACHABLE


def test_a_renewal_that_fails_after_the_release_is_not_reported(world: World) -> None:
    tenure = world.tenure()
    tenure.ended = True
    tenure.unanswered("HTWIDE the main key does not hold this grant")
    tenure.unanswered("connection refused")
    assert world.seen == []


def test_a_deadline_after_a_renewal_that_came_through_in_the_end_is_expiry(world: World) -> None:
    tenure = world.tenure()
    tenure.unanswered("connection refused")
    assert tenure.answered(1, world.now)
    world.now += 60
    assert tenure.lost()
    assert tenure.reason is LossReason.EXPIRED


def test_max_hold_is_the_end_however_often_it_was_renewed(world: World) -> None:
    tenure = world.tenure(ttl=10, max_hold=15)
    world.now += 8
    assert 7000 < ttl_asked(tenure.request(world.now)) < 7200, "the last renewal is shorter"
    assert tenure.answered(1, world.now)
    assert tenure.deadline == pytest.approx(1015.0)
    world.now = 1015.0
    assert tenure.lost()
    assert tenure.reason is LossReason.MAX_HOLD


def test_a_forked_child_has_lost_it_without_telling_anybody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tenure = world.tenure()
    tenure.on_loss(lambda: None)
    monkeypatch.setattr(process.current, "epoch", process.current.epoch + 1)
    assert tenure.remaining() == 0.0
    assert tenure.lost()
    assert tenure.reason is LossReason.FORKED
    assert world.delivered == []


# Loss is told once, and is final.


def test_the_first_reason_stays_and_is_told_once(world: World) -> None:
    tenure = world.tenure()
    tenure.on_loss(hook := lambda: None)
    tenure.lose(LossReason.TAKEN)
    tenure.lose(LossReason.EXPIRED)
    assert tenure.reason is LossReason.TAKEN
    assert world.delivered == [hook]
    assert len(world.seen) == 1


def test_after_the_end_no_loss_is_told(world: World) -> None:
    tenure = world.tenure()
    tenure.on_loss(lambda: None)
    tenure.ended = True
    tenure.lose(LossReason.TAKEN)
    world.now += 60
    assert not tenure.lost()
    assert tenure.reason is None
    assert world.delivered == []


def test_a_callback_that_is_added_after_the_loss_is_called_at_once(world: World) -> None:
    tenure = world.tenure()
    tenure.lose(LossReason.TAKEN)
    assert tenure.on_loss(hook := lambda: None) is False
    assert world.delivered == [hook]


def test_a_hook_that_was_dropped_is_not_told(world: World) -> None:
    tenure, gone = world.tenure(), threading.Event()
    assert tenure.on_loss(gone.set)
    tenure.drop_hook(gone.set)
    tenure.drop_hook(gone.set)
    tenure.lose(LossReason.TAKEN)
    assert world.delivered == []


# Renewal.


@pytest.mark.parametrize(
    ("reply", "reason"), [([0, b"h" * 24], LossReason.TAKEN), ([0, b""], LossReason.EXPIRED)], ids=repr
)
def test_a_renewal_that_was_refused_is_the_loss(world: World, reply: object, reason: LossReason) -> None:
    tenure = world.tenure()
    assert not tenure.answered(reply, world.now)
    assert tenure.reason is reason
    assert not tenure.alive


@pytest.mark.parametrize("reply", [hiredis.ReplyError("LOADING"), [-1, 5], None], ids=repr)
def test_anything_else_is_doubt_and_moves_no_deadline(world: World, reply: object) -> None:
    tenure = world.tenure()
    before = tenure.deadline
    world.now += 3
    assert not tenure.answered(reply, world.now)
    assert tenure.alive
    assert tenure.deadline == before
    assert [type(event) for event in world.seen] == [RenewalFailed]


def test_a_renewal_adds_nothing_to_what_a_tenure_remembers(world: World) -> None:
    tenure = world.tenure(ttl=10)
    before = set(vars(tenure))
    for _ in range(3):
        assert tenure.request(world.now)
        assert tenure.answered(1, world.now)
        world.now += 3
    assert set(vars(tenure)) == before, "one more attribute costs more than a hundred bytes, of each of many"


def test_a_renewal_counts_from_when_it_was_sent(world: World) -> None:
    tenure = world.tenure()
    assert tenure.request(1003.0) is not None
    world.now += 5
    assert tenure.answered(1, 1003.0)
    assert tenure.deadline == pytest.approx(1012.898)
    assert [type(event) for event in world.seen] == [Renewed]


def test_past_the_deadline_nothing_is_asked_and_nothing_at_all_without_renewal(world: World) -> None:
    tenure = world.tenure()
    assert tenure.request(tenure.deadline) is None
    assert world.tenure(renew=False).request(world.now) is None


def test_after_the_end_nothing_is_asked(world: World) -> None:
    tenure = world.tenure()
    tenure.ended = True
    assert tenure.request(world.now) is None


def test_a_late_renewal_teaches_the_servers_clock(world: World) -> None:
    tenure = world.tenure()
    before = argument("not_after", tenure.request(world.now))
    tenure.answered([-1, int((world.now + 3600) * 1000)], world.now)  # its clock was put forward by an hour
    assert argument("not_after", tenure.request(world.now)) > before


def test_a_renewal_counts_with_the_ttl_that_it_asked_for(world: World) -> None:
    tenure = world.tenure(ttl=1)
    world.keeper.add(tenure, world.now)
    renewal = Renewal(tenure, 60.0, lambda: None)
    renewal.start()
    assert ttl_asked(renewal.request(world.now)) == 60_000
    overtaken = tenure.request(
        world.now
    )  # it waited in the keeper's connection, and goes out in the same batch if at all
    renewal.answered(1, world.now)
    if overtaken is None:
        assert tenure.deadline > world.now + 59
    else:
        tenure.answered(1, world.now)
        assert tenure.deadline <= world.now + ttl_asked(overtaken) / 1000, "what the server was told last"


def test_a_lease_is_renewed_before_its_deadline_also_after_a_renewal_was_overtaken(world: World) -> None:
    tenure = world.tenure(ttl=1)
    renewal = Renewal(tenure, 60.0, lambda: None)
    renewal.start()
    world.keeper._requested.clear()  # the two go out in one batch, the overtaken one last
    renewal.request(world.now)
    overtaken = tenure.request(world.now)
    renewal.answered(1, world.now)
    if overtaken is not None:
        world.keeper.settled(tenure, well=tenure.answered(1, world.now), sent=world.now, now=world.now)
    assert world.keeper._do_due(world.now) < tenure.deadline


# A renewal that a caller waits for.


def test_renew_sets_the_ttl_for_good(world: World) -> None:
    tenure = world.tenure(ttl=10)
    renewal = Renewal(tenure, 30.0, done := threading.Event().set)
    assert ttl_asked(renewal.request(world.now)) == 30_000
    assert renewal.answered(1, world.now)
    assert (tenure.ttl, tenure.interval) == (30.0, 10.0)
    assert tenure.deadline == pytest.approx(world.now + 29.698)
    assert done.__self__.is_set()  # type: ignore[attr-defined]
    renewal.conclude()
    assert list(world.keeper.charges(tenure.place)) == [tenure]


def test_a_refused_renewal_is_not_owner(world: World) -> None:
    tenure = world.tenure()
    renewal = Renewal(tenure, None, lambda: None)
    renewal.answered([0, b"h" * 24], world.now)
    with pytest.raises(NotOwner, match="another owner") as caught:
        renewal.conclude()
    assert caught.value.reason is LossReason.TAKEN


def test_an_unanswered_renewal_is_unavailable_and_the_keeper_goes_on(world: World) -> None:
    tenure = world.tenure()
    renewal = Renewal(tenure, None, lambda: None)
    renewal.unanswered("connection refused")
    with pytest.raises(Unavailable, match="cannot renew: connection refused"):
        renewal.conclude()
    assert tenure.alive
    world.keeper.do_requested()
    connection = world.keeper._connection_to(tenure.place)
    waiting = [charge for charge, _ in connection.waiting]
    assert tenure in [*world.keeper.charges(tenure.place), *waiting]


def test_detaching_ends_the_tenure_once_the_server_has_agreed(world: World) -> None:
    tenure = world.tenure(ttl=10)
    renewal = Renewal(tenure, 600.0, lambda: None, last=True)
    assert ttl_asked(renewal.request(world.now)) == 600_000
    assert tenure.alive
    renewal.answered(1, world.now)
    assert tenure.request(world.now) is None, "a renewal would take the time for adopting away"
    renewal.conclude()
    assert tenure.ended


def test_a_detach_that_is_given_up_when_the_server_has_agreed_already_does_not_end_the_lease(world: World) -> None:
    tenure = world.tenure(ttl=10)
    renewal = Renewal(tenure, 1.0, lambda: None, last=True)
    renewal.request(world.now)
    renewal.answered(1, world.now)
    renewal.give_up()
    assert tenure.alive
    assert tenure.request(world.now) is not None
    world.now += 1
    assert tenure.lost(), "the server has kept it for no longer than that"


def test_an_answer_that_comes_after_detach_was_given_up_does_not_end_the_lease(world: World) -> None:
    tenure = world.tenure()
    renewal = Renewal(tenure, 600.0, lambda: None, last=True)
    renewal.request(world.now)
    with pytest.raises(Unavailable):
        renewal.conclude()
    renewal.answered(1, world.now)
    assert tenure.alive, "its holder was told that it could not be detached, and goes on"


def test_a_renewal_of_what_ended_meanwhile_is_not_sent(world: World) -> None:
    tenure, done = world.tenure(), threading.Event()
    tenure.lose(LossReason.TAKEN)
    renewal = Renewal(tenure, None, done.set)
    assert renewal.request(world.now) is None
    assert done.is_set()
    with pytest.raises(NotOwner):
        renewal.conclude()


def test_nothing_of_this_started_the_keeper_or_called_back(world: World) -> None:
    assert world.keeper._thread is None
    assert keeper_module.keeper() is not world.keeper
    assert callbacks.get_logger().name == "holdtight"


def held_long(world: World) -> list[HeldLong]:
    return [event for event in world.seen if isinstance(event, HeldLong)]


def test_a_grant_that_is_renewed_for_ten_ttls_is_told_of_once(world: World) -> None:
    tenure = world.tenure(ttl=10)
    for seconds in range(3, 99, 3):
        world.now = 1000.0 + seconds
        tenure.renewed(world.now, 10.0)
    assert held_long(world) == []
    for seconds in range(102, 300, 3):
        world.now = 1000.0 + seconds
        tenure.renewed(world.now, 10.0)
    assert held_long(world) == [HeldLong("orders", owner_text(tenure.owner), 7, 102.0, kind=Kind.EXCLUSIVE)]


def test_a_lease_that_is_renewed_by_hand_alone_does_not_hang(world: World) -> None:
    tenure = world.tenure(ttl=10, renew=False)
    world.now += 500
    tenure.renewed(world.now, 10.0)
    assert held_long(world) == []
