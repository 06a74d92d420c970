"""The keeper cannot be stopped or delayed by one bad lease, one dead server, or a user's callback."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from holdtight import Locks, LossReason
from holdtight.events import Event, RenewalFailed
from holdtight.grants.tenure import Tenure
from holdtight.keeper.keeper import keeper
from tests.faults.clients import OpenClient, release_lost, start
from tests.support.leases import outlive, renewed
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer, StartServer


def let_pass(seconds: float) -> None:
    """Time in which something must not happen."""
    time.sleep(seconds)


def test_a_dead_server_does_not_delay_renewals_on_another(
    private_server: RunningServer, proxy: Proxy, start_server: StartServer, open_client: OpenClient
) -> None:
    sound_server = start_server()
    doomed_client, sound_client = open_client(proxy.url), open_client(sound_server.url)
    doomed = [doomed_client.acquire(f"doomed-{number}", ttl=1) for number in range(60)]
    sound = [sound_client.acquire(f"sound-{number}", ttl=2) for number in range(60)]
    proxy.black_hole()
    wait_for(lambda: all(lease.lost for lease in doomed), within=3)
    outlive(*sound)
    assert all(lease.reason is LossReason.UNREACHABLE for lease in doomed)
    assert not any(lease.lost for lease in sound)
    for lease in sound:
        sound_client.release(lease)
    proxy.heal()
    for lease in doomed:
        release_lost(doomed_client, lease)


def test_what_the_keeper_sends_after_the_process_was_stopped_is_not_refused(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped while the keeper makes requests. Each of them has a limit for its arrival, which is then past."""

    def stopped_once(tenure: Tenure, now: float) -> bytes | None:
        if not stopped.is_set():
            stopped.set()
            time.sleep(2.5)  # the fault itself
        return request(tenure, now)

    request, stopped, failed = Tenure.request, threading.Event(), list[Event]()
    with Locks(private_server.url) as locks:
        locks.events.subscribe(lambda event: failed.append(event) if isinstance(event, RenewalFailed) else None)
        leases = [locks.lock(f"a-{number}", ttl=12).acquire() for number in range(12)]
        monkeypatch.setattr(Tenure, "request", stopped_once)
        outlive(*leases)
        assert stopped.is_set()
        assert failed == []
        for lease in leases:
            lease.release()


def test_renewals_go_on_when_a_server_is_back_in_time(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client = open_client(proxy.url)
    leases = [client.acquire(f"a-{number}", ttl=3) for number in range(60)]
    proxy.refuse()
    proxy.cut()
    let_pass(1.3)  # more than one renewal would have taken
    proxy.heal()
    outlive(*leases)
    assert not any(lease.lost for lease in leases)
    for lease in leases:
        client.release(lease)


def test_a_callback_that_blocks_delays_neither_renewals_nor_the_detection_of_losses(
    private_server: RunningServer,
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(_: object) -> None:
        entered.set()
        go_on.wait(30)

    try:
        with Locks(private_server.url) as locks:
            first = locks.lock("first", ttl=2).acquire()
            kept = locks.lock("kept", ttl=2).acquire()
            second = locks.lock("second", ttl=2).acquire()
            first.on_lost(block)
            private_server.command("DEL", "ht:{first}")
            assert entered.wait(3)
            waiter = start(lambda: second.wait_lost(5))
            private_server.command("DEL", "ht:{second}")
            wait_for(lambda: second.tenure.reason is not None, within=2)
            assert waiter.result(1), "a thread that waits for the loss of another lease hears of it at once"
            renewed(kept)
            kept.release()
            for lost in (first, second):
                with pytest.raises(Exception, match="not ours"):
                    lost.release()
    finally:
        go_on.set()


def test_a_subscriber_that_blocks_delays_no_renewal(private_server: RunningServer) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(event: Event) -> None:
        if type(event).__name__ == "Renewed":
            entered.set()
            go_on.wait(30)

    try:
        with Locks(private_server.url) as locks:
            locks.events.subscribe(block)
            lease = locks.lock("a", ttl=2).acquire()
            assert entered.wait(3)
            renewed(lease)
            lease.release()
    finally:
        go_on.set()


def test_a_subscriber_that_raises_changes_nothing(
    private_server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail(event: Event) -> None:
        seen.append(type(event).__name__)
        raise RuntimeError("a subscriber's own fault")

    with Locks(private_server.url) as locks, caplog.at_level(logging.ERROR, "holdtight"):
        locks.events.subscribe(fail)
        lease = locks.lock("a", ttl=1.5).acquire()
        lost = locks.lock("b", ttl=1.5).acquire()
        lost.on_lost(lambda _: 1 / 0)
        private_server.command("DEL", "ht:{b}")
        wait_for(lambda: lost.lost)
        wait_for(lambda: seen.count("Renewed") >= 3)
        lease.check()
        lease.release()
        with pytest.raises(Exception, match="not ours"):
            lost.release()
    wait_for(lambda: "ZeroDivisionError" in caplog.text)
    assert "a subscriber's own fault" in caplog.text


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("deadline", None), ("ttl", "long"), ("terms", None)],
)
def test_a_lease_in_a_bad_state_harms_no_other(private_server: RunningServer, attribute: str, value: Any) -> None:
    """Bad leases before, among and after good ones, so that one is in the middle of a batch."""
    with Locks(private_server.url) as locks:
        leases = [locks.lock(f"a-{number}", ttl=2).acquire() for number in range(30)]
        bad = leases.pop(10)
        was = getattr(bad.tenure, attribute)
        setattr(bad.tenure, attribute, value)
        outlive(*leases)
        assert not any(lease.lost for lease in leases)
        fresh = locks.lock("fresh", ttl=2).acquire()
        renewed(fresh)
        for lease in [*leases, fresh]:
            lease.check()
            lease.release()
        setattr(bad.tenure, attribute, was)
        bad.tenure.ended = True


def test_two_thousand_leases_in_one_process_are_all_kept(private_server: RunningServer) -> None:
    with Locks(private_server.url) as locks:
        leases = [locks.lock(f"a-{number}", ttl=3).acquire() for number in range(2000)]
        let_pass(4)
        lost = [lease for lease in leases if lease.lost]
        assert not lost, f"{len(lost)} of 2000 lost: {lost[:3]}"
        assert min(lease.remaining() for lease in leases) > 0.3
        for lease in leases:
            lease.release()


def test_long_waits_and_many_renewals_leave_nothing_on_the_keepers_agenda(
    private_server: RunningServer,
) -> None:
    with Locks(private_server.url) as locks:
        wait_long(locks)


def wait_long(locks: Locks) -> None:
    held = locks.lock("a", ttl=0.9).acquire()
    before = keeper().statistics()["agenda"]
    waiters = [start(lambda: locks.lock("a").acquire(wait=30)) for _ in range(20)]
    let_pass(3.6)  # each of them is touched twice
    held.release()
    for _ in range(20):
        wait_for(lambda: any(each.done() for each in waiters))
        done = next(each for each in waiters if each.done())
        waiters.remove(done)
        done.result().release()
    wait_for(lambda: keeper().statistics()["agenda"] <= before + 10, within=35, what="the agenda to empty itself")
