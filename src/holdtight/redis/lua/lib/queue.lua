-- What scripts need once a name has, or may have, a queue. Expects the locals main, queue,
-- waiters and the clock readings now (ms) and now_us.
--
-- A main value is  kind(1) '1' flag(1) then
--     held       'x1' flag owner(24) fence(16) label
--     tombstone  't1' flag fence(16)
-- flag is 'q' while the waiters hash may exist. A held key is alive while PTTL > TAIL.
-- A waiters hash has  owner(24) → entry,  'm'owner → marker (ms),  'f' → fence floor,
--     'c' → score up to which everybody in line is passed over, see hand_over.
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

-- Drops dead waiters from a line that is full; from another part of a long one each time.
local function sweep_some(waiting)
  local from, gone = waiting > SWEEP and now % (waiting - SWEEP + 1) or 0, 0
  local ids = call('ZRANGE', queue, from, from + SWEEP - 1)
  for i = 1, #ids do
    if not is_alive(call('HGET', waiters, ids[i])) then
      leave_queue(ids[i])
      gone = gone + 1
    end
  end
  return gone
end

-- Tells the first live waiter behind `score` to look when the claim window ends.
local function note_runner_up(score, claim)
  local ids = call('ZRANGEBYSCORE', queue, '(' .. score, '+inf', 'LIMIT', 0, 4)
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
-- A script that runs out of looks leaves in 'c' how far it came, so that the next goes on there and does
-- not look at the same live but passed over waiters again. An attempt that clears a mark removes it.
local function hand_over(last, from, me)
  local score, budget = from or 0, SWEEP
  while budget > 0 do
    local ids = call('ZRANGEBYSCORE', queue, '(' .. score, '+inf', 'WITHSCORES', 'LIMIT', 0, 8)
    if #ids == 0 then
      if from then call('HDEL', waiters, 'c') end
      return nil, nil, false
    end
    for i = 1, #ids, 2 do
      local id = ids[i]
      score = ids[i + 1]
      budget = budget - 1
      if id == me then return me end
      local entry = call('HGET', waiters, id)
      if not is_alive(entry) then
        leave_queue(id)
      elseif not is_passed_over(entry) then
        local inbox, label = inbox_of(entry)
        local reached = ring(inbox, 'g' .. id)
        call('HSET', waiters, id, with_mark(entry, 'm'))
        if reached then
          local claim = math.min(CLAIM, tonumber(sub(entry, 16, 24)))
          local fence = math.max(last + 1, now_us)
          call('SET', main, 'x1q' .. id .. fence_text(fence) .. label, 'PX', claim + TAIL)
          keep_floor(fence, claim)
          note_runner_up(score, claim)
          return id, claim
        end
      end
    end
  end
  call('HSET', waiters, 'c', score)
  keep(waiters, HEARTBEAT)
  return nil, nil, true
end

-- Drops lapsed markers and entries that no line knows, some at a time: a hash in constant use never expires.
local function drop_litter()
  local some = call('HRANDFIELD', waiters, 8, 'WITHVALUES')
  for i = 1, #some, 2 do
    local id = some[i]
    local lapsed = #id == 25 and tonumber(some[i + 1]) < now
    if lapsed or (#id == 24 and not call('ZSCORE', queue, id)) then call('HDEL', waiters, id) end
  end
end

local function bury(fence)
  local flag = call('EXISTS', waiters) == 1 and 'q' or '-'
  call('SET', main, 't1' .. flag .. fence_text(fence), 'PX', memory_of(fence, 0))
end

-- The last fence, or the fence floor if a stepped clock left one; and where hand_over goes on.
local function floor_of(last)
  local known = call('HMGET', waiters, 'f', 'c')
  return math.max(last, known[1] or 0), known[2]
end

-- Frees a name whose fence is `last` and whose holder is `owner`, or gives it to the next. What comes first
-- reads both keys, or fails before it has written; and removing is what a server out of memory never
-- refuses, and after it other writes are allowed.
-- Returns 1, or 2 if dead waiters are left to be swept before a live one is found.
local function pass_on(last, owner)
  local from
  last, from = floor_of(last)
  leave_queue(owner)
  call('DEL', main)
  local id, _, more = hand_over(last, from, '')
  if not id then bury(last) end
  return more and 2 or 1
end
