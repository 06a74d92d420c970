-- Attempts to acquire a plain lock, a key that holds its owner and nothing else. Serves as first request and retry.
-- KEYS    lock
-- ARGV    owner ttl not_after
-- RETURN  1 granted | 0 held by another | {-1, now} late
-- ttl 0 means no expiry; not_after is in µs, and has no effect for a user without permission for TIME. A retry may
-- arrive after the holder has extended the lock: it extends the time left, and never shortens it.
--@include plain_time
if now_us > tonumber(not_after) then return {-1, now} end
local value = redis.pcall('GET', lock) -- of another type: somebody's, all the same
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE') then return value end
if value and value ~= owner then return 0 end
if not value then
  if ttl == '0' then call('SET', lock, owner) else call('SET', lock, owner, 'PX', ttl) end
elseif ttl ~= '0' then
  local left = call('PTTL', lock)
  if left >= 0 and left < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
end
return 1
