-- Attempts to acquire a read lock (mode r, n 1, permits 0), or n permits of a semaphore if at most `permits` are then
-- in use (mode p). Serves as first request, confirmation of a hand-over and retry.
-- KEYS    main queue waiters holders
-- ARGV    mode n permits ttl px limit label inbox not_after owner
-- RETURN  fence | {1, fence, now, expired_owner} | {0, now, holder, left, position, look}
-- RETURN  {-1, now} late | {-2, now, waiting} queue full | {-3, now} withdrawn
-- px is ttl + TAIL; limit is the longest queue to join, 0 to attempt without joining; not_after is in µs.
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
-- A fence has 16 digits: the seconds, then six digits of microseconds. As strings, fences compare like numbers.
local text = seconds .. (#micros == 6 and micros or sub('00000' .. micros, -6))
if value and #value == 19 and FRONT_OF(value) == 't1-' and #text == 16 and text <= not_after
  and AFTER_FLAG_OF(value) < text and tonumber(AFTER_FLAG_OF(value)) and (mode == 'r' or tonumber(n) <= tonumber(permits)) then
  -- The usual case: no holder, no waiter.
  if redis.pcall('ZADD', holders, 'NX', math.floor(text / 1000) + ttl, owner) == 1 then
    local span = px
--@include admit_unqueued
  end
end

--@rest
local now_us = seconds * 1000000 + micros
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end

--@include constants
--@include read_main
n, permits = tonumber(n), tonumber(permits)
local now = math.floor(now_us / 1000)

if not flagged and last < now_us and (kind == 't1' or shared == mode and #value == 19) then
  -- No waiters, no expired holders to remove, and the request fits.
  local room, span = mode == 'r' or n <= permits, tonumber(px)
  if shared then
    room = #call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, 1) == 0
      and (mode == 'r' or call('ZCARD', holders) + n <= permits)
    if room then span = math.max(span, call('PTTL', holders)) end
  end
  if room and redis.pcall('ZADD', holders, 'NX', now + ttl, owner) == 1 then
--@include admit_unqueued
  end
end

local mine = false
if shared == mode then
  local score = call('ZSCORE', holders, owner)
  local held = score and tonumber(score) > now and call('HGET', waiters, 'h' .. owner)
  mine = held and HELD_FENCE_OF(held)
end
--@include attempt_rest
