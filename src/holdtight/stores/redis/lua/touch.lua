-- A waiter's heartbeat. Never grants and never clears a mark. Rings the waiter, which then attempts again, if the server
-- does not know it (any more); if its entry has another inbox (a late attempt arrived on a connection that is gone); or
-- if the name may be available and the clients that should have rung it are dead.
-- KEYS    main queue waiters holders
-- ARGV    owner inbox [kept]
-- RETURN  1 known | 0 unknown
-- kept is how long the place stays without a further heartbeat, in ms, if that is not HEARTBEAT.
local found = call('HMGET', waiters, owner, 'c')
local entry = found[1]
if not entry or not call('ZSCORE', queue, owner) then
  if inbox ~= '' then redis.pcall('PUBLISH', inbox, 'g' .. owner) end
  return 0
end
--@include constants
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', main)
local kind, come = type(value) == 'string' and KIND_OF(value), true -- whatever is wrong with it: an attempt says so
local shared = kind == 's1' or kind == 'p1'
if kind == 'x1' then
  come = call('PTTL', main) <= TAIL
elseif shared then
  come = #call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, 1) > 0
end
come = come or INBOX_OF(entry, INBOX_SIZE_OF(entry)) ~= inbox
local stays = tonumber(kept or HEARTBEAT)
-- First: a server out of memory refuses HSET, but not after this. Others may stay for longer: it shortens nothing.
call('PEXPIRE', queue, math.max(call('PTTL', queue), stays))
call('HSET', waiters, owner, MODE_AND_MARK_OF(entry) .. string.format('%013.0f', now + stays) .. AFTER_EXPIRY_OF(entry))
if call('PTTL', waiters) < stays then call('PEXPIRE', waiters, stays) end
if inbox == '' then return 1 end

-- A waiter that wants to share may be blocked only by dead waiters ahead of it. Mark those that cannot be rung, as a
-- hand-over would, then wake this waiter.
local from, waits = 0, shared and not come
while waits and from < SWEEP do
  local size = from == 0 and 8 or SWEEP - from
  local ids = call('ZRANGEBYSCORE', queue, '(' .. (found[2] or 0), '+inf', 'LIMIT', from, size)
  for i = 1, #ids do
    local one = waits and call('HGET', waiters, ids[i])
    if ids[i] == owner then
      waits = false
    elseif waits and not (one and tonumber(EXPIRY_OF(one)) > now) then
      come = true
    elseif waits and MARK_OF(one) == '-' then
      local length = tonumber(INBOX_SIZE_OF(one))
      local listening = length > 0 and redis.pcall('PUBSUB', 'NUMSUB', INBOX_OF(one, length))
      waits = listening and listening[2] == 0
      if waits then
        call('HSET', waiters, ids[i], MODE_OF(one) .. 'm' .. AFTER_MARK_OF(one))
        come = true
      end
    end
  end
  waits = waits and #ids == size
  from = from + size
end
if come then redis.pcall('PUBLISH', inbox, 'g' .. owner) end
return 1
