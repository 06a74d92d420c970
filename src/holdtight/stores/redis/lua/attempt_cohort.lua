-- Attempts to acquire an exclusive lock together with a range of fences, one for each lease of a batch (decision 0015).
-- KEYS    main queue waiters holders
-- ARGV    ttl px limit label inbox not_after owner
-- RETURN  as attempt.lua; the fence is the first of the range
-- The main value gets the last fence of the range. Every attempt that is granted reserves a new range above the last
-- one: a range of an attempt whose reply was lost, or that came late, stays unused.
local reply = (function()
--@script attempt
end)()
if type(reply) == 'table' and reply[1] ~= 1 then return reply end
local value, time = call('GET', main), call('TIME')
local now_us = time[1] * 1000000 + time[2]
local before = tonumber(FENCE_OF(value))
local last = string.format('%.0f', before + RANGE_SIZE)
call('SET', main, UP_TO_OWNER_OF(value) .. last .. LABEL_OF(value), 'KEEPTTL')
-- The clock was set back: the attempt has stored the fence's floor, which must rise as well.
if before > now_us + ttl * 1000 then call('HSET', waiters, 'f', last) end
local first = string.format('%.0f', before + 1)
if type(reply) == 'string' then return first end
reply[2] = first
return reply
