-- The usual hand-over: the first waiter is alive, wants the name exclusively and can be rung, and the hash has neither
-- 'f' nor 'c'. handover.lua covers all other cases. The first write here is one that a server out of memory does not
-- refuse. `text` is the server's time as a fence.
-- EXPECTS  CLAIM FRESH HEARTBEAT TAIL inbox main owner queue text waiters
-- LEAVES   nothing: it returns, or has changed nothing
local id = call('ZRANGE', queue, 0, 0)[1]
local found = id and call('HMGET', waiters, 'f', 'c', owner, id)
local entry = found and not found[1] and not found[2] and not found[3] and found[4]
local now, expiry = text / 1000, entry and MODE_AND_MARK_OF(entry) == 'x-' and tonumber(EXPIRY_OF(entry))
if expiry and expiry > math.floor(now) then
  local size = tonumber(INBOX_SIZE_OF(entry))
  -- The server flushes clients last in, first out: publishing to the releaser first makes the waiter's bell leave before
  -- the releaser's reply (decision 0012).
  if inbox then redis.pcall('PUBLISH', inbox, 'r') end
  local rung = size > 0 and redis.pcall('PUBLISH', INBOX_OF(entry, size), 'g' .. id)
  if type(rung) == 'number' and rung > 0 then
    local claim = math.min(CLAIM, tonumber(TTL_OF(entry)))
    call('ZREM', queue, owner)
    call('HSET', waiters, id, 'xm' .. AFTER_MARK_OF(entry))
    call('SET', main, 'x1q' .. id .. text .. AFTER_INBOX_OF(entry, size), 'PX', claim + TAIL)
    if expiry > now + HEARTBEAT - FRESH then return 3 end
    local ids = call('ZRANGE', queue, 1, 4)
    found = #ids > 0 and call('HMGET', waiters, unpack(ids))
    for i = 1, #ids do
      entry = found[i]
      if entry and MARK_OF(entry) == '-' and tonumber(EXPIRY_OF(entry)) > math.floor(now) then
        size = tonumber(INBOX_SIZE_OF(entry))
        rung = size == 0 or redis.pcall('PUBLISH', INBOX_OF(entry, size), 'n' .. ids[i] .. claim)
        if type(rung) ~= 'number' or rung > 0 then break end
      end
    end
    return 1
  end
end
