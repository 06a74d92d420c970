-- The usual hand-over: the first in line is alive, wants it alone and can be rung, and the hash remembers nothing that
-- would have to be seen to. Whatever else is the case is left to handover.lua, which does the same with more care.
-- Expects constants.lua, owner, inbox and text, the time as a fence. Its first write is one that a server out of memory does
-- not refuse.
local id = call('ZRANGE', queue, 0, 0)[1]
local found = id and call('HMGET', waiters, 'f', 'c', owner, id)
local entry = found and not found[1] and not found[2] and not found[3] and found[4]
local now, expiry = text / 1000, entry and sub(entry, 1, 2) == 'x-' and tonumber(sub(entry, 3, 15))
if expiry and expiry > math.floor(now) then
  local size = tonumber(sub(entry, 38, 39))
  -- What a server has for its clients it sends to the last first: who has something to read before the waiter is rung
  -- has its answer after him. It is the waiter for whom others wait.
  if inbox then redis.pcall('PUBLISH', inbox, 'r') end
  local rung = size > 0 and redis.pcall('PUBLISH', sub(entry, 40, 39 + size), 'g' .. id)
  if type(rung) == 'number' and rung > 0 then
    local claim = math.min(CLAIM, tonumber(sub(entry, 16, 24)))
    call('ZREM', queue, owner)
    call('HSET', waiters, id, 'xm' .. sub(entry, 3))
    call('SET', main, 'x1q' .. id .. text .. sub(entry, 40 + size), 'PX', claim + TAIL)
    if expiry > now + HEARTBEAT - FRESH then return 3 end
    local ids = call('ZRANGE', queue, 1, 4)
    found = #ids > 0 and call('HMGET', waiters, unpack(ids))
    for i = 1, #ids do
      entry = found[i]
      if entry and sub(entry, 2, 2) == '-' and tonumber(sub(entry, 3, 15)) > math.floor(now) then
        size = tonumber(sub(entry, 38, 39))
        rung = size == 0 or redis.pcall('PUBLISH', sub(entry, 40, 39 + size), 'n' .. ids[i] .. claim)
        if type(rung) ~= 'number' or rung > 0 then break end
      end
    end
    return 1
  end
end
