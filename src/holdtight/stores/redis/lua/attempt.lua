-- Attempts to acquire an exclusive lock. Serves as first request, confirmation of a hand-over and retry.
-- KEYS    main queue waiters holders
-- ARGV    ttl px limit label inbox not_after owner
-- RETURN  fence | {1, fence, now, expired_owner} | {0, now, holder, left, position, look}
-- RETURN  {-1, now} late | {-2, now, waiting} queue full | {-3, now} withdrawn
-- px is ttl + TAIL; limit is the longest queue to join, 0 to attempt without joining; not_after is in µs.
--@include constants
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
-- A fence has 16 digits: the seconds, then six digits of microseconds. As strings, fences compare like numbers.
local text = seconds .. (#micros == 6 and micros or sub('00000' .. micros, -6))
if #text == 16 and text <= not_after then
  -- The usual case: the name is free; at most the last holder's tombstone is there.
  local free
  if not value then
    free = call('EXISTS', waiters) == 0
  elseif #value == 19 and FRONT_OF(value) == 't1-' then
    local last = AFTER_FLAG_OF(value)
    free = tonumber(last) and last < text
  elseif UP_TO_OWNER_OF(value) == 'x1q' .. owner and FENCE_OF(value) < text then
    local left = call('PTTL', main)
    if left > TAIL and left <= tonumber(px) and call('HGET', waiters, owner) then
      -- The usual confirmation of a hand-over: the owner is still in the queue, and its time left grows.
      call('ZREM', queue, owner)
      call('HDEL', waiters, owner)
      call('PEXPIRE', main, px)
      return {1, FENCE_OF(value), math.floor(text / 1000), ''}
    end
  end
  if free then
    call('SET', main, 'x1-' .. owner .. text .. label, 'PX', px)
    return text
  end
end

--@rest
local now_us = seconds * 1000000 + micros
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end
--@include read_main
if left <= 0 and not flagged and last < now_us and not shared then
  call('SET', main, 'x1-' .. owner .. text .. label, 'PX', px)
  if expired == '' then return text end
  return {1, text, math.floor(now_us / 1000), expired}
end

local now = math.floor(now_us / 1000)
local mode, n, permits = 'x', 1, 0
local mine = left > 0 and OWNER_OF(value) == owner and FENCE_OF(value)
--@include attempt_rest
