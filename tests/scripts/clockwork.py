"""A copy of a script that uses the test's own clock.

The text is the script's own but for this: `redis.call` and `redis.pcall` go through a few lines of Lua that
answer TIME from the key `~clock` (µs) and keep every expiry themselves, as points of that clock's time in
the hash `~expiries`. So SET … PX, KEEPTTL, PEXPIRE and PTTL mean what they mean on a server whose clock is
`~clock`, and time passes, or is set back, by a SET. `test_clockwork.py` compares them with the real thing.

SWEEP may be made small, so that a line need not have hundreds in it before a script must stop.
"""

from __future__ import annotations

import re
from functools import cache

from holdtight.stores.memory.engine import SWEEP
from holdtight.stores.redis.script import Script
from tests.scripts.workbench import Desk

__all__ = ["ClockworkDesk", "on_test_clock"]

_PRELUDE = """
local test_us = tonumber(redis.call('GET', '~clock'))
local test_ms = math.floor(test_us / 1000)
local function text_of(number)
  if math.floor(number) ~= number then error('ERR value is not an integer or out of range') end
  return string.format('%.0f', number)
end
local function forget_if_gone(key)
  if redis.call('EXISTS', key) == 0 then redis.call('HDEL', '~expiries', key) end
end
local function expire_if_due(key)
  local due = redis.call('HGET', '~expiries', key)
  if due and test_ms > tonumber(due) then redis.call('DEL', key) end
  forget_if_gone(key)
end
local function expire_in(key, ms)
  redis.call('HSET', '~expiries', key, text_of(test_ms + ms))
end
local function simulated(call, verb, key, ...)
  if verb == 'TIME' then
    return {text_of(math.floor(test_us / 1000000)), text_of(test_us % 1000000)}
  elseif verb == 'PUBLISH' then
    return call(verb, key, ...)
  end
  expire_if_due(key)
  if verb == 'PTTL' then
    if redis.call('EXISTS', key) == 0 then return -2 end
    local due = redis.call('HGET', '~expiries', key)
    return due and tonumber(due) - test_ms or -1
  elseif verb == 'PEXPIRE' then
    local ms = tonumber((...))
    if redis.call('EXISTS', key) == 0 then return 0 end
    expire_in(key, ms)
    if ms <= 0 then redis.call('DEL', key) end
    forget_if_gone(key)
    return 1
  elseif verb == 'SET' then
    local value, how, ms = ...
    local done = call('SET', key, value)
    if how == 'PX' then
      expire_in(key, tonumber(ms))
    elseif how ~= 'KEEPTTL' then
      redis.call('HDEL', '~expiries', key)
    end
    return done
  end
  local reply = call(verb, key, ...)
  forget_if_gone(key)
  return reply
end
local function simulated_call(...) return simulated(redis.call, ...) end
local function simulated_pcall(...) return simulated(redis.pcall, ...) end
"""


@cache
def on_test_clock(text: bytes, sweep: int = SWEEP) -> bytes:
    body, bound = re.subn(rf"(local TAIL, [^=]*SWEEP = .*, ){SWEEP}\b", rf"\g<1>{sweep}", text.decode())
    assert bound <= 1
    body, calls = re.subn(r"\bredis\.(p?call)\b", r"simulated_\1", body)
    assert calls, "the script's calls are spelled in another way: they would escape the test's clock"
    return (_PRELUDE + body).encode()


class ClockworkDesk(Desk):
    """A desk whose scripts use the clock that `set_clock` sets."""

    sweep = SWEEP

    def set_clock(self, now_us: int) -> None:
        self.wire.call("SET", "~clock", now_us)

    def text_of(self, what: Script) -> bytes:
        return on_test_clock(what.body, self.sweep)

    def now_us(self) -> int:
        return int(self.wire.call("GET", "~clock"))

    def expire_due(self) -> None:
        """Removes expired keys, as a server does by itself in time."""
        for key in self.keys:
            due = self.expiry(key)
            if due is not None and self.now() > due:
                self.wire.call("DEL", key)
                self.wire.call("HDEL", "~expiries", key)

    def expiry(self, key: bytes) -> int | None:
        due = self.wire.call("HGET", "~expiries", key)
        return int(due) if due else None
