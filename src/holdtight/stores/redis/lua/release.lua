-- Releases an exclusive or shared grant, and hands the name to the next waiters, if there are any.
-- KEYS    main queue waiters holders
-- ARGV    owner [inbox] [fence]
-- RETURN  1 released | 2 released, sweep again | {0, holder} not ours: '' if it is gone, free or shared by others
-- RETURN  {0, holder, fence} released by force before: the fence is that of the forced grant
-- RETURN  3 released, to a waiter that is trusted to come: no runner-up was told to look when its claim ends
-- inbox is that of the releasing connection: see usual_handover.lua. It may be '' if there is a fence.
-- fence is that of the grant: a grant of this owner with another fence is not ours.
--@include constants
local value = call('GET', main)
local front = value and FRONT_OF(value)
local alone = (front == 'x1-' or front == 'x1q') and OWNER_OF(value) == owner
if fence and (not alone or FENCE_OF(value) ~= fence) then front, alone = '', false end
local last_one = (front == 's1-' or front == 'p1-') and #value <= 20 and tonumber(SHARED_FENCE_OF(value))
if last_one then
  local ids = call('ZRANGE', holders, 0, 1)
  last_one = ids[1] == owner and not ids[2]
end
if alone or last_one then
  local latest, time = alone and FENCE_OF(value) or SHARED_FENCE_OF(value), call('TIME')
  local micros = time[2]
  local text = time[1] .. (#micros == 6 and micros or sub('00000' .. micros, -6))
  if #text == 16 and latest < text then
    if last_one then
      -- Without a flag the hash has nothing but holders, if it is ours.
      local done = redis.pcall('HDEL', waiters, 'h' .. owner)
      if type(done) == 'number' then call('DEL', holders, waiters) else call('DEL', holders) end
    end
    if front ~= 'x1q' then
      -- The usual case: no waiters. The tombstone keeps the fence for the next owner.
      local done = redis.pcall('SET', main, 't1-' .. latest, 'PX', TAIL_TEXT)
      if done.err then call('DEL', main) end
      return 1
    end
--@include usual_handover
  end
end
--@rest
--@include not_ours
if not value then return not_ours('') end
local kind, shared = KIND_OF(value), nil
if OWNER_OF(value) ~= owner or kind ~= 'x1' then
  if kind == 'x1' then return not_ours(OWNER_OF(value)) end
  if kind == 't1' then return not_ours('') end
  shared = kind == 's1' and 'r' or kind == 'p1' and 'p'
  if not shared or #value > 20 or not tonumber(SHARED_FENCE_OF(value)) then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
end
if fence and not shared and FENCE_OF(value) ~= fence then return not_ours('') end
local own = fence and shared and call('HGET', waiters, 'h' .. owner) or ''
if fence and shared and HELD_FENCE_OF(own) ~= fence then return not_ours('') end
local text = shared and SHARED_FENCE_OF(value) or FENCE_OF(value)
local last, flagged = tonumber(text), FLAG_OF(value) == 'q'
if shared and not flagged then
  if call('ZREM', holders, owner) == 0 then return {0, ''} end
  local done = redis.pcall('HDEL', waiters, 'h' .. owner)
  if call('ZCARD', holders) > 0 then return 1 end
  -- Without a flag the hash has nothing else of use: it need not stay as long as the holders could have.
  if type(done) == 'number' then call('PEXPIRE', waiters, HEARTBEAT) end
  local time = call('TIME')
  local ahead = math.ceil((last - time[1] * 1000000 - time[2]) / 1000)
  call('SET', main, 't1-' .. text, 'PX', math.max(ahead, 0) + TAIL)
  return 1
end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include queue_helpers
local known = call('HMGET', waiters, 'f', 'c', owner)
if shared then
  if not call('ZSCORE', holders, owner) then return not_ours('') end
  call('ZCARD', queue)
  call('ZREM', holders, owner)
  call('HDEL', waiters, 'h' .. owner)
end
--@include holders
--@include handover
call('ZREM', queue, owner) -- fails before anything is written, and is not refused by a server out of memory
if known[3] then call('HDEL', waiters, owner) end
return pass_on(known[1], known[2], true)
