-- Sets the time left of what one holds; never creates, never revives.
-- KEYS    main waiters holders
-- ARGV    owner ttl px not_after
-- RETURN  1 renewed | {0, holder} not ours: '' if expired, gone or shared by others | {-1, now} late
local value = call('GET', main)
if not value then return {0, ''} end
local kind = sub(value, 1, 2)
if kind ~= 'x1' then
  if kind == 't1' then return {0, ''} end
  if kind ~= 's1' and kind ~= 'p1' then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
  local score = call('ZSCORE', holders, owner)
  local time = call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  local now = math.floor(now_us / 1000)
  if not score or tonumber(score) <= now then return {0, ''} end
  if now_us > tonumber(not_after) then return {-1, now} end
  call('HGET', waiters, 'h' .. owner) -- before the first write: it may be somebody else's key
--@include rearm
  return 1
end
if sub(value, 4, 27) ~= owner then return {0, sub(value, 4, 27)} end
--@include constants
if call('PTTL', main) <= TAIL then return {0, ''} end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
local last = tonumber(sub(value, 28, 43))
local ahead = last > now_us + ttl * 1000
if ahead then call('HGET', waiters, 'f') end -- before the first write: it may be somebody else's key
call('PEXPIRE', main, px)
if ahead then
  call('HSET', waiters, 'f', sub(value, 28, 43))
  local memory = math.ceil((last - now_us) / 1000) + TAIL
  if call('PTTL', waiters) < memory then call('PEXPIRE', waiters, memory) end
end
return 1
