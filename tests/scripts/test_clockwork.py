"""The scripts on the test's clock (clockwork.py) see the same server as the original scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from holdtight.stores.memory.engine import SWEEP
from holdtight.stores.redis import script, wait_records
from holdtight.stores.redis.cohort import COHORT
from holdtight.stores.redis.script import Script
from tests.scripts.clockwork import ClockworkDesk, on_test_clock
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, fence_of
from tests.support.raw import ServerSaid
from tests.support.servers import RunningServer

SCRIPTS = [
    script.ATTEMPT,
    script.SHARE,
    script.RELEASE,
    script.RENEW,
    script.TOUCH,
    script.WITHDRAW,
    script.ADOPT,
    script.DOWNGRADE,
    script.INSPECT,
    COHORT,
    wait_records.BLOCKERS,
    wait_records.RETRACT,
]
NOW = 1_800_000_000_000_000


@pytest.fixture
def clockwork(server: RunningServer) -> Iterator[ClockworkDesk]:
    with closing(ClockworkDesk(server)) as desk:
        desk.set_clock(NOW)
        yield desk


@pytest.mark.parametrize("what", SCRIPTS, ids=lambda what: what.name)
def test_nothing_but_the_calls_is_changed(what: Script) -> None:
    own = on_test_clock(what.body).decode().partition("simulated(redis.pcall, ...) end\n")[2]
    assert own.replace("simulated_", "redis.").encode() == what.body


def test_the_bound_of_a_sweep_can_be_made_smaller() -> None:
    assert b", 8\n" in on_test_clock(script.RELEASE.body, sweep=8)
    assert b", %d\n" % SWEEP in on_test_clock(script.RELEASE.body)


# The same Lua with and without the test's clock: everything that scripts do with time and with keys that vanish

PROBES = {
    "pttl of a missing key": "return call('PTTL', KEYS[1])",
    "pttl without an expiry": "call('SET', KEYS[1], 'v') return call('PTTL', KEYS[1])",
    "set px": "call('SET', KEYS[1], 'v', 'PX', 5000) return call('PTTL', KEYS[1])",
    "set drops an expiry": "call('SET', KEYS[1], 'v', 'PX', 50) call('SET', KEYS[1], 'w') return call('PTTL', KEYS[1])",
    "set keepttl": "call('SET', KEYS[1], 'v', 'PX', 5000) call('SET', KEYS[1], 'w', 'KEEPTTL') "
    "return {call('GET', KEYS[1]), call('PTTL', KEYS[1])}",
    "pexpire of a missing key": "return {call('PEXPIRE', KEYS[1], 5), call('EXISTS', KEYS[1])}",
    "pexpire": "call('ZADD', KEYS[1], 1, 'm') return {call('PEXPIRE', KEYS[1], 700), call('PTTL', KEYS[1])}",
    "pexpire of the past": "call('SET', KEYS[1], 'v') "
    "return {call('PEXPIRE', KEYS[1], 0), call('EXISTS', KEYS[1]), call('PTTL', KEYS[1])}",
    "a set that becomes empty": "call('ZADD', KEYS[1], 1, 'm') call('PEXPIRE', KEYS[1], 700) "
    "call('ZREM', KEYS[1], 'm') call('ZADD', KEYS[1], 1, 'm') return call('PTTL', KEYS[1])",
    "a hash that becomes empty": "call('HSET', KEYS[1], 'f', 1) call('PEXPIRE', KEYS[1], 700) "
    "call('HDEL', KEYS[1], 'f') call('HSET', KEYS[1], 'f', 1) return call('PTTL', KEYS[1])",
    "del": "call('SET', KEYS[1], 'v', 'PX', 50) call('DEL', KEYS[1]) call('SET', KEYS[1], 'v', 'KEEPTTL') "
    "return call('PTTL', KEYS[1])",
    "a broken number": "call('SET', KEYS[1], 'v') return call('PEXPIRE', KEYS[1], 1.5)",
    "a wrong type": "call('SET', KEYS[1], 'v') return call('HGET', KEYS[1], 'f')",
    "a refused call": "call('SET', KEYS[1], 'v') return redis.pcall('HGET', KEYS[1], 'f')",
    "no listener": "return redis.pcall('PUBLISH', 'nobody', 'm')",
}


def alike(found: Any, expected: Any) -> bool:
    """Compares; but a time to live, alone or in a list, may be smaller: the real clock goes on."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(found, int) and isinstance(expected, int) and expected > 0:
        return found - 100 < expected <= found
    return bool(found == expected)


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES.keys())
def test_commands_answer_alike(clockwork: ClockworkDesk, probe: str) -> None:
    def answer(text: bytes) -> Any:
        clockwork.wire.send("EVAL", text, 1, "key")
        reply = clockwork.wire.read()
        clockwork.wire.call("DEL", "key")
        return type(reply) if isinstance(reply, ServerSaid) else reply

    real = f"local call = redis.call\n{probe}".encode()
    expected, found = answer(real), answer(on_test_clock(real))
    assert alike(found, expected)


def test_the_clock_is_the_tests(clockwork: ClockworkDesk) -> None:
    assert clockwork.attempt(ALICE) == b"%d" % NOW
    assert clockwork.now() == NOW // 1000


def test_a_key_is_there_in_its_last_millisecond_and_gone_in_the_next(clockwork: ClockworkDesk) -> None:
    clockwork.attempt(ALICE, ttl=1_000)
    clockwork.set_clock(NOW + 11_000_999)
    assert clockwork.inspect()[1][3:27] == ALICE
    clockwork.set_clock(NOW + 11_001_000)
    assert clockwork.inspect()[1] == b""


def test_passing_time_by_hand_is_the_same_as_waiting(clockwork: ClockworkDesk, desk: Desk) -> None:
    """`Desk.pass_time`, on the real clock, against the test's clock set forward."""

    def history(on: Desk) -> None:
        on.attempt(ALICE, ttl=1_000)
        on.attempt(BOB, ttl=1_000)
        on.withdraw(CAROL, on.now() + 2_000)

    def shapes(on: Desk) -> list[Any]:
        return [on.attempt(CAROL)[0], on.renew(ALICE), [e.owner for e in on.state().line], on.attempt(BOB)[0]]

    found = []
    for ms in (900, 1_001, 2_001, 5_001, 11_001):
        clockwork.wire.call("FLUSHALL")
        clockwork.set_clock(NOW)
        history(clockwork)
        clockwork.set_clock(NOW + ms * 1000)
        found.append(shapes(clockwork))
        desk.wire.call("FLUSHALL")
        history(desk)
        desk.pass_time(ms)
        assert shapes(desk) == found[-1], ms
    assert len({repr(each) for each in found}) > 3, "or the moments were badly chosen"


def test_a_fence_set_ahead_is_seen_by_both(clockwork: ClockworkDesk) -> None:
    clockwork.attempt(ALICE)
    clockwork.set_clock(NOW - 1_000_000)
    clockwork.release(ALICE)
    assert fence_of(clockwork.attempt(BOB)) == NOW + 1
