-- Takes over a detached grant in one step, with a new owner and a higher fence.
-- KEYS    main waiters
-- ARGV    old owner ttl label not_after
-- RETURN  {1, fence, now, ''} | {0, now, holder} not there to be adopted | {-1, now} late | {-3, now} withdrawn
-- RETURN  {0, now, holder, fence} released by force
local value = call('GET', main)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
if now_us > tonumber(not_after) then return {-1, now} end
local function not_there(holder)
  call('GETEX', main) -- as in lib/not_ours.lua
  local forced = call('HMGET', waiters, 'k' .. old, 'k' .. owner)
  forced = forced[1] or forced[2]
  return {0, now, holder, forced and FORCED_FENCE_OF(forced) or nil}
end
local kind = value and KIND_OF(value)
if not value or kind == 't1' or kind == 's1' or kind == 'p1' then return not_there('') end
if kind ~= 'x1' then
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
local holder, last = OWNER_OF(value), tonumber(FENCE_OF(value))
local left = call('PTTL', main)
if left <= TAIL then return not_there('') end
if FLAG_OF(value) == 'q' then
  local marker = call('HGET', waiters, 'm' .. owner)
  if marker and tonumber(UNTIL_OF(marker)) >= now then return {-3, now} end
end
if holder == owner then
  call('PEXPIRE', main, math.max(ttl + TAIL, left))
  return {1, FENCE_OF(value), now, ''}
end
if holder ~= old then return not_there(holder) end
local fence = math.max(last + 1, now_us)
local text = string.format('%.0f', fence)
if fence > now_us + ttl * 1000 then
  call('HSET', waiters, 'f', text)
  local memory = math.ceil((fence - now_us) / 1000) + TAIL
  if call('PTTL', waiters) < memory then call('PEXPIRE', waiters, memory) end
end
call('SET', main, 'x1' .. FLAG_OF(value) .. owner .. text .. label, 'PX', ttl + TAIL)
return {1, text, now, ''}
