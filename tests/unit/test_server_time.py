"""What a client knows of the server's time: a slow or late reply must not make later arrival limits longer."""

from __future__ import annotations

import pytest

from holdtight.base.clock import Drift
from holdtight.base.values import Claim, Verdict
from holdtight.stores.client import Client
from holdtight.stores.redis.store import Store

AHEAD = 1_000_000.0
"""By how much the server's clock is ahead of ours."""


class Scene:
    def __init__(self) -> None:
        self.now = 100.0
        self.client = Client("ht", clock=lambda: self.now)

    def hears(self, *, to: float, back: float = 0.0) -> None:
        """A request takes `to` seconds to the server, and its reply `back`."""
        sent = self.now
        self.now += to + back
        self.client.learn(AHEAD + sent + to, sent)

    @property
    def error(self) -> float:
        """By how much we think that the server's clock is later than it is."""
        return round(self.client.server_time(self.now) - AHEAD - self.now, 6)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("to", [0.001, 1.9, 60.0])
def test_a_request_that_took_long_is_no_lead(scene: Scene, to: float) -> None:
    scene.hears(to=to)
    assert scene.error == 0
    scene.hears(to=0.001)
    scene.hears(to=to, back=0.3)
    assert 0 <= scene.error <= 0.001


def test_a_reply_that_was_read_late_is_corrected_by_the_next(scene: Scene) -> None:
    scene.hears(to=0.001, back=1.5)
    assert scene.error == -1.5
    scene.hears(to=0.001, back=0.002)
    assert -0.002 <= scene.error <= 0


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_was_set_is_followed_at_once(scene: Scene, by: float) -> None:
    scene.hears(to=0.001)
    sent = scene.now
    scene.now += 0.01
    scene.client.learn(AHEAD + by + sent + 0.005, sent)
    assert abs(scene.error - by) <= 0.01


def test_a_vote_that_came_late_is_no_lead_either(scene: Scene) -> None:
    scene.hears(to=0.001)
    sent = scene.now
    scene.now += 1.8
    scene.client.learn_usual(AHEAD + sent + 1.8, sent)
    assert scene.error == 0


def test_a_renewal_that_came_late_does_not_lengthen_the_arrival_limits_of_the_next(scene: Scene) -> None:
    store = Store(scene.client, server="a", drift=Drift(0.01, 0.002), max_waiters=10)
    prepared = store.shape(Claim("n", 12.0)).prepare("n")
    scene.hears(to=0.001)
    sent = scene.now
    scene.now += 5.0
    assert prepared.read_renewal([-1, round((AHEAD + sent + 4.9) * 1000)], sent) is Verdict.UNKNOWN
    assert store.not_after(scene.now, 2.0) <= (AHEAD + scene.now + 2.01) * 1e6
