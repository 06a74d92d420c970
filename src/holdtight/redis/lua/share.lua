-- Asks to read (mode r, n 1, permits 0), or for n permits of a semaphore if no more than `permits` are then out
-- (mode p): first request, confirmation of a hand-over and retry alike.
-- KEYS    main queue waiters holders
-- ARGV    mode n permits ttl px limit label inbox not_after owner
-- RETURN  fence | {1, fence, now, expired_owner} | {0, now, holder, left, position, look}
-- RETURN  {-1, now} late | {-2, now, waiting} queue full | {-3, now} withdrawn
-- px is ttl + TAIL; limit is the longest queue to join, 0 asks without joining; not_after is in µs.
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
local now_us = seconds * 1000000 + micros
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end

--@include constants
--@include main
n, permits = tonumber(n), tonumber(permits)
local now = math.floor(now_us / 1000)

if not flagged and last < now_us and (kind == 't1' or shared == mode and #value == 19) then
  -- The usual case: nobody in line, nobody dead to clear away, and it fits.
  local room, span = mode == 'r' or n <= permits, tonumber(px)
  if shared then
    room = #call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, 1) == 0
      and (mode == 'r' or call('ZCARD', holders) + n <= permits)
    if room then span = math.max(span, call('PTTL', holders)) end
  end
  -- NX: who is in already keeps his fence. Whatever else stands against it is said below.
  if room and redis.pcall('ZADD', holders, 'NX', now + ttl, owner) == 1 then
    local text = seconds .. sub('00000' .. micros, -6)
    local done = redis.pcall('HSET', waiters, 'h' .. owner, mode .. sub('00000000' .. n, -9) .. text .. label)
    if type(done) == 'table' then
      call('ZREM', holders, owner) -- as if nothing had been written: the other key is somebody else's
      return done
    end
    call('PEXPIRE', holders, span)
    call('PEXPIRE', waiters, span) -- without a flag there is nothing in it but holders
    call('SET', main, (mode == 'r' and 's1-' or 'p1-') .. text .. (n > 1 and '+' or ''), 'PX', span)
    return text
  end
end

local mine = false
if shared == mode then
  local score = call('ZSCORE', holders, owner)
  local held = score and tonumber(score) > now and call('HGET', waiters, 'h' .. owner)
  mine = held and sub(held, 11, 26)
end
--@include ask
