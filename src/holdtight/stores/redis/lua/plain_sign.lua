-- Replaces the owner of a plain lock by a text that the caller chose.
-- KEYS    lock
-- ARGV    owner text not_after
-- RETURN  {1, expiry, now} done | {2, expiry, now} that text stands there already | {0, 0, now} not ours
-- RETURN  {-1, 0, now} late
--@include plain_time
if now_us > tonumber(not_after) then return {-1, 0, now} end
local value = call('GET', lock)
if value ~= owner and value ~= text then return {0, 0, now} end
local left = call('PTTL', lock)
if value == owner then call('SET', lock, text, 'KEEPTTL') end
return {value == owner and 1 or 2, left < 0 and -1 or now + left, now}
