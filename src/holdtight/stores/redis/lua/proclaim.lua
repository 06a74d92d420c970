-- Changes the label of an exclusive grant, and nothing else.
-- KEYS    main
-- ARGV    owner label not_after
-- RETURN  1 changed | {0, holder} not ours: '' if it expired or is gone | {-1, now} late
--@include constants
local value, time = call('GET', main), call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if not value or KIND_OF(value) ~= 'x1' or call('PTTL', main) <= TAIL then return {0, ''} end
if OWNER_OF(value) ~= owner then return {0, OWNER_OF(value)} end
call('SET', main, UP_TO_FENCE_OF(value) .. label, 'KEEPTTL')
return 1
