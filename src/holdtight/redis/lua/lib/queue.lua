-- What scripts need once a name has, or may have, a queue. Expects the locals main, queue,
-- waiters and the clock readings now (ms) and now_us.
--
-- A main value is  kind(1) '1' flag(1) then
--     held       'x1' flag owner(24) fence(16) label
--     tombstone  't1' flag fence(16)
-- flag is 'q' while the waiters hash may exist. A held key is alive while PTTL > TAIL.
-- A waiters hash has  owner(24) → entry,  'm'owner → marker (ms),  'f' → fence floor.
-- An entry is  mode(1) mark(1) expiry(13) ttl(9) joined(13) #inbox(2) inbox label

local function keep(key, ms)
  if call('PTTL', key) < ms then call('PEXPIRE', key, ms) end
end

local function fence_text(fence)
  return string.format('%.0f', fence)
end

-- How long a key must stay so that its fence is remembered until the clock has passed it.
local function memory_of(fence, ms)
  local ahead = math.ceil((fence - now_us) / 1000)
  if ahead > ms then ms = ahead end
  return ms + TAIL
end

-- A fence that is ahead of the clock (the clock was stepped back) must outlive its holder.
local function keep_floor(fence, ttl)
  if fence > now_us + ttl * 1000 then
    call('HSET', waiters, 'f', fence_text(fence))
    keep(waiters, memory_of(fence, 0))
  end
end

local function entry_of(mode, mark, expiry, ttl, joined, inbox, label)
  return string.format('%s%s%013.0f%09.0f%013.0f%02d%s%s', mode, mark, expiry, ttl, joined, #inbox, inbox, label)
end

local function with_mark(entry, mark)
  return sub(entry, 1, 1) .. mark .. sub(entry, 3)
end

local function inbox_of(entry)
  local size = tonumber(sub(entry, 38, 39))
  return sub(entry, 40, 39 + size), sub(entry, 40 + size)
end

local function is_alive(entry)
  return entry and tonumber(sub(entry, 3, 15)) > now
end

local function is_passed_over(entry)
  return sub(entry, 2, 2) ~= '-'
end

-- True unless the server says that nobody listens. Without the right to publish, or without
-- an inbox, the waiter polls and counts as reached.
local function ring(inbox, message)
  if inbox == '' then return true end
  local receivers = redis.pcall('PUBLISH', inbox, message)
  return type(receivers) ~= 'number' or receivers > 0
end

local function leave_queue(owner)
  call('ZREM', queue, owner)
  call('HDEL', waiters, owner)
end

-- Tells the first live waiter after `rank` to look when the claim window ends.
local function note_runner_up(rank, claim)
  local ids = call('ZRANGE', queue, rank, rank + 3)
  for i = 1, #ids do
    local entry = call('HGET', waiters, ids[i])
    if is_alive(entry) and not is_passed_over(entry) then
      local inbox = inbox_of(entry)
      if inbox == '' or ring(inbox, 'n' .. ids[i] .. claim) then return end
    end
  end
end

-- Gives a free name to the first live waiter; `me` is never given anything, the caller decides.
-- Returns the waiter's id and its claim window; or me; or nothing, and true if there may be more
-- to look through.
-- A given entry stays in line, marked, until its owner confirms: a claim that is missed has
-- its mark already.
local function hand_over(last, me)
  local rank, budget = 0, SWEEP
  while budget > 0 do
    local ids = call('ZRANGE', queue, rank, rank + 7)
    if #ids == 0 then return nil, nil, false end
    for i = 1, #ids do
      local id = ids[i]
      budget = budget - 1
      if id == me then return me end
      local entry = call('HGET', waiters, id)
      if not is_alive(entry) then
        leave_queue(id)
      elseif is_passed_over(entry) then
        rank = rank + 1
      else
        local inbox, label = inbox_of(entry)
        local reached = ring(inbox, 'g' .. id)
        call('HSET', waiters, id, with_mark(entry, 'm'))
        if reached then
          local claim = math.min(CLAIM, tonumber(sub(entry, 16, 24)))
          local fence = math.max(last + 1, now_us)
          call('SET', main, 'x1q' .. id .. fence_text(fence) .. label, 'PX', claim + TAIL)
          keep_floor(fence, claim)
          note_runner_up(rank + 1, claim)
          return id, claim
        end
        rank = rank + 1
      end
    end
  end
  return nil, nil, true
end

local function bury(fence)
  local flag = call('EXISTS', waiters) == 1 and 'q' or '-'
  call('SET', main, 't1' .. flag .. fence_text(fence), 'PX', memory_of(fence, 0))
end

-- The fence floor, if a stepped clock left one.
local function floor_of(last)
  local floor = tonumber(call('HGET', waiters, 'f') or 0)
  if floor > last then return floor end
  return last
end

-- Frees a held name whose fence is `last`, or gives it to the next. DEL comes first: it is the
-- one write that a server out of memory never refuses, and after it the others are allowed.
-- Returns 1, or 2 if dead waiters are left to be swept before a live one is found.
local function pass_on(last)
  call('DEL', main)
  last = floor_of(last)
  local id, _, more = hand_over(last, '')
  if not id then bury(last) end
  return more and 2 or 1
end
