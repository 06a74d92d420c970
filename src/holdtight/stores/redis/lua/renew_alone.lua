-- Renews an exclusive grant on a cluster; never creates or revives one, and the time left only grows. Names, and touches,
-- the main key alone, so that it goes through while the slot is moved key by key: renew.lua would get TRYAGAIN until the
-- slot has arrived, and a resharding that stalls would cost every lease of the slot.
-- KEYS    main
-- ARGV    owner ttl px not_after
-- RETURN  1 renewed | {-1, now} late
-- RETURN  the error HTWIDE: ask again with renew.lua, which says whether the grant is lost and why, or keeps its fence
-- px is ttl + TAIL.
--@include constants
local value = call('GET', main)
local left = value and KIND_OF(value) == 'x1' and OWNER_OF(value) == owner and call('PTTL', main)
if not left or left <= TAIL then return redis.error_reply('HTWIDE the main key does not hold this grant') end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if tonumber(FENCE_OF(value)) > now_us + ttl * 1000 then
  return redis.error_reply('HTWIDE the fence is ahead of the clock')
end
if left < tonumber(px) then call('PEXPIRE', main, px) end
return 1
