-- The shared holders of a name, always counted from the set, never from a stored number. Expired holders are removed
-- some at a time; until all are removed, no owner can hold the name exclusively.
--     stored   holders in the set, expired or not      living  those not expired; `admit` updates both
--     longest  the longest time to live that this script has granted
-- EXPECTS  HEARTBEAT SWEEP TAIL fence_text flagged holders keep keep_floor kind last main now now_us queue shared value
-- EXPECTS  waiters
-- LEAVES   longest was_shared stored living clear_away fits admit settle tighten

local greedy, permits_taken, longest = kind == 'p1' and #value == 20, nil, 0
if not value and flagged then
  -- The main key may have been lost, by eviction or by hand. The holders still hold.
  local id = call('ZRANGE', holders, -1, -1)[1]
  local holder = id and call('HGET', waiters, 'h' .. id)
  shared = holder and MODE_OF(holder)
  greedy = true
end
local was_shared = shared
local dead, stored, living = {}, 0, 0
if shared then
  dead, stored = call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, SWEEP), call('ZCARD', holders)
  living = stored - #dead
  if #dead == SWEEP then living = call('ZCOUNT', holders, '(' .. now, '+inf') end
else
  call('ZCARD', holders) -- before the first write: it may be somebody else's key
end

-- Removes expired holders and returns one of them. Not one that is still in the queue: it missed a hand-over, and held
-- nothing that could expire.
local function clear_away()
  local found, fields = '', {}
  for i = 1, #dead do
    fields[i] = 'h' .. dead[i]
    if found == '' and not call('ZSCORE', queue, dead[i]) then found = dead[i] end
  end
  if #dead > 0 then
    call('ZREM', holders, unpack(dead))
    call('HDEL', waiters, unpack(fields))
    stored = stored - #dead
  end
  return found
end

-- Each holder has one permit unless the name is `greedy`: only then does this read the holders' entries.
local function permits_out()
  if permits_taken then return permits_taken end
  permits_taken = living
  local ids = greedy and call('ZRANGEBYSCORE', holders, '(' .. now, '+inf') or {}
  greedy = greedy and stored > living -- for all we know of the dead, whom a clock set back would revive
  for i = 1, #ids, 100 do
    local fields = {}
    for j = i, math.min(i + 99, #ids) do fields[#fields + 1] = 'h' .. ids[j] end
    local found = call('HMGET', waiters, unpack(fields))
    for j = 1, #found do
      local n = found[j] and tonumber(HELD_COUNT_OF(found[j])) or 1
      if n > 1 then greedy, permits_taken = true, permits_taken + n - 1 end
    end
  end
  return permits_taken
end

local function fits(mode, n, permits)
  if stored == 0 then return mode ~= 'p' or n <= permits end
  if mode == 'p' then return shared == 'p' and permits_out() + n <= permits end
  return mode == 'r' and shared == 'r'
end

-- Adds a shared holder; `settle` must follow. `waiter` is its marked queue entry, if it comes from the queue.
local function admit(id, mode, n, ttl, label, waiter)
  last = math.max(last + 1, now_us)
  if stored == 0 then greedy, permits_taken = false, 0 end
  call('ZADD', holders, now + ttl, id)
  local holder = string.format('%s%09.0f%.0f%s', mode, n, last, label)
  if waiter then
    call('HSET', waiters, 'h' .. id, holder, id, waiter)
  else
    call('HSET', waiters, 'h' .. id, holder)
  end
  shared, stored, living = mode, stored + 1, living + 1
  if permits_taken then permits_taken = permits_taken + n end
  greedy = greedy or n > 1
  longest = math.max(longest, ttl)
end

-- Writes the main value. All keys stay until the last holder has visibly expired; none is ever shortened here.
local function settle(flag)
  local span = math.max(longest + TAIL, call('PTTL', holders))
  call('PEXPIRE', holders, span)
  keep(waiters, span)
  local value = (shared == 'r' and 's1' or 'p1') .. flag .. fence_text(last)
  if shared == 'p' and greedy then value = value .. '+' end
  call('SET', main, value, 'PX', span)
  keep_floor(last, longest)
end

-- After the last shared holder: the rest of the hash must not stay as long as the holders could have.
local function tighten()
  local known = call('HMGET', waiters, 'e', 'f')
  local floor = math.ceil(((known[2] or 0) - now_us) / 1000) + TAIL
  local ms = math.max(HEARTBEAT, call('PTTL', queue), (known[1] or 0) - now, floor)
  if call('PTTL', waiters) > ms then call('PEXPIRE', waiters, ms) end
end
