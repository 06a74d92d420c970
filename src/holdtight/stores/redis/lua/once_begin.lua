-- Writes the record of a run that is about to start, if its owner still holds the lock and no record stands in the way.
-- KEYS    main record
-- ARGV    owner keep any about not_after
-- RETURN  {1, started} written, or written before by this owner | {0, holder} not ours: '' if it expired or is gone
-- RETURN  {2, record, left} a record stands, for `left` ms | {-1, now} late
-- keep is how long the record stays, in ms from now. any is '1' if every start counts, '0' if only a run that returned.
--
-- A record is  'o1' state(1) owner(24) fence(16) started(16) ended(16) about,  times in µs; ended is 0 before the end.
-- state is 'r' once it may run, 'd' if it returned, 'f' if it raised. about is JSON for people.
--@include constants
local value, time = call('GET', main), call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if not value or KIND_OF(value) ~= 'x1' or call('PTTL', main) <= TAIL then return {0, ''} end
if OWNER_OF(value) ~= owner then return {0, OWNER_OF(value)} end
local stands = call('GET', record)
if stands then
  if KIND_OF(stands) ~= 'o1' then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a record of this format')
  end
  if RUN_OWNER_OF(stands) == owner then return {1, RUN_STARTED_OF(stands)} end
  if any == '1' or RUN_STATE_OF(stands) == 'd' then return {2, stands, call('PTTL', record)} end
end
local text = string.format('%016.0f', now_us)
call('SET', record, 'o1r' .. owner .. FENCE_OF(value) .. text .. '0000000000000000' .. about, 'PX', keep)
return {1, text}
