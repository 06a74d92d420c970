-- Asks for a plain lock, a key that holds its owner and nothing else: first request and retry alike.
-- KEYS    lock
-- ARGV    owner ttl not_after
-- RETURN  1 granted | 0 held by another | {-1, now} late
-- ttl 0 is for ever; not_after is in µs. A user without the right to TIME does without that limit.
local time = redis.pcall('TIME')
if time[1] then
  local now_us = time[1] * 1000000 + time[2]
  if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
end
local value = redis.pcall('GET', lock) -- of another type: somebody's, all the same
if value and value ~= owner then return 0 end
if not value then
  if ttl == '0' then call('SET', lock, owner) else call('SET', lock, owner, 'PX', ttl) end
elseif ttl ~= '0' then
  call('PEXPIRE', lock, ttl)
end
return 1
