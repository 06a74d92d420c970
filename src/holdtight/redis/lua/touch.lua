-- A waiter's heartbeat. Never grants and never clears a mark; rings the waiter if the server
-- does not know it (any more), so that it comes and looks.
-- KEYS    queue waiters
-- ARGV    owner inbox
-- RETURN  1 known | 0 unknown
local entry = call('HGET', waiters, owner)
if not entry or not call('ZSCORE', queue, owner) then
  if inbox ~= '' then redis.pcall('PUBLISH', inbox, 'g' .. owner) end
  return 0
end
--@include constants
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('PEXPIRE', queue, HEARTBEAT) -- first: a server out of memory refuses HSET, but not after this
call('HSET', waiters, owner, sub(entry, 1, 2) .. string.format('%013.0f', now + HEARTBEAT) .. sub(entry, 16))
if call('PTTL', waiters) < HEARTBEAT then call('PEXPIRE', waiters, HEARTBEAT) end
return 1
