-- Ends a run in its record, or takes the record back if the run did not start after all. Leaves another run's alone.
-- KEYS    record
-- ARGV    owner state about
-- RETURN  1 done | 0 there is no record of this owner's that is not ended
-- state is 'd' or 'f' as in once_begin.lua; '' takes the record back.
local value = call('GET', record)
if not value or FRONT_OF(value) ~= 'o1r' or RUN_OWNER_OF(value) ~= owner then return 0 end
if state == '' then return call('DEL', record) end
local time = call('TIME')
local text = string.format('%016.0f', time[1] * 1000000 + time[2])
call('SET', record, 'o1' .. state .. RUN_BODY_OF(value) .. text .. about, 'KEEPTTL')
return 1
