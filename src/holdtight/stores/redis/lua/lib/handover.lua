-- Hands a free name, or free permits, to waiters.
--     taker    the owner that was granted the name exclusively   claimed  its claim window in ms
--     trusting the caller checks the claim itself                trusted  so no runner-up was told
-- EXPECTS  CLAIM FRESH HEARTBEAT SWEEP TAIL admit clear_away fence_text fits is_alive keep keep_floor last leave_queue
-- EXPECTS  living main memory_of now_us queue settle stored tighten waiters was_shared
-- LEAVES   taker claimed hand_over pass_on
local taker, claimed, budget, trusting, trusted = nil, 0, SWEEP, false, false

-- False only if the inbox has no subscriber. Without an inbox, or without permission to publish, the waiter polls and
-- counts as reached.
local function ring(inbox, message)
  if inbox == '' then return true end
  local receivers = redis.pcall('PUBLISH', inbox, message)
  return type(receivers) ~= 'number' or receivers > 0
end

local function inbox_of(entry)
  local size = tonumber(INBOX_SIZE_OF(entry))
  return INBOX_OF(entry, size), AFTER_INBOX_OF(entry, size)
end

-- Tells the first live waiter from `score` on to attempt again when the claim window ends.
local function note_runner_up(score, claim)
  local ids = call('ZRANGEBYSCORE', queue, score, '+inf', 'LIMIT', 0, 4)
  for i = 1, #ids do
    local entry = call('HGET', waiters, ids[i])
    if is_alive(entry) and MARK_OF(entry) == '-' then
      local inbox = inbox_of(entry)
      if inbox == '' or ring(inbox, 'n' .. ids[i] .. claim) then return end
    end
  end
end

-- Grants to all waiters that fit now, in order, behind `score`; never to `me`, for which the caller decides.
-- Returns first: true if it had to stop, because the name is now held exclusively, a waiter ahead does not fit, or the
-- budget is used up. Second: true if more entries may be left to check. Third, if it reached `me`: the score of `me`.
-- A granted entry stays in the queue, marked, until its owner confirms: a missed claim is thus marked already.
-- A script that uses up its budget stores in 'c' how far it came (`looked` for the next), so that the next continues
-- there and skips live waiters that were passed over. An attempt that clears a mark deletes 'c'.
local function hand_over(score, looked, me)
  local window = 0
  while budget > 0 do
    local ids = call('ZRANGEBYSCORE', queue, '(' .. score, '+inf', 'WITHSCORES', 'LIMIT', 0, math.min(8, budget))
    if #ids == 0 then
      if looked then call('HDEL', waiters, 'c') end
      if window > 0 then settle('q') end
      return false, false
    end
    for i = 1, #ids, 2 do
      local id = ids[i]
      if id == me then
        if window > 0 then settle('q') end
        return false, false, ids[i + 1]
      end
      score = ids[i + 1]
      budget = budget - 1
      local entry = call('HGET', waiters, id)
      if not is_alive(entry) then
        leave_queue(id)
      elseif MARK_OF(entry) == '-' then
        local mode, n, permits = MODE_OF(entry), 1, 0
        local inbox, label = inbox_of(entry)
        if mode == 'p' then
          n, permits, label = tonumber(COUNT_OF(label)), tonumber(PERMITS_OF(label)), AFTER_PERMITS_OF(label)
        end
        if not fits(mode, n, permits) then
          if window > 0 then
            settle('q')
            note_runner_up(score, window)
          end
          return true, stored > 0 and living == 0
        end
        local claim = math.min(CLAIM, tonumber(TTL_OF(entry)))
        local reached = ring(inbox, 'g' .. id)
        entry = mode .. 'm' .. AFTER_MARK_OF(entry)
        if reached and mode ~= 'x' then
          admit(id, mode, n, claim, label, entry)
          window = math.max(window, claim)
        else
          call('HSET', waiters, id, entry)
        end
        if reached and mode == 'x' then
          last = math.max(last + 1, now_us)
          call('SET', main, 'x1q' .. id .. fence_text(last) .. label, 'PX', claim + TAIL)
          keep_floor(last, claim)
          if was_shared then tighten() end
          trusted = trusting and tonumber(EXPIRY_OF(entry)) > now_us / 1000 + HEARTBEAT - FRESH
          if not trusted then note_runner_up('(' .. score, claim) end
          taker, claimed = id, claim
          return true, false
        end
      end
    end
  end
  call('HSET', waiters, 'c', score)
  keep(waiters, HEARTBEAT)
  if window > 0 then settle('q') end
  return true, true
end

-- Runs after an owner gave up its grant: hands the name to the next waiters, or leaves a tombstone with the fence. The
-- script must have read all keys before its first write, so that it fails before it writes; and its first write must be
-- one that a server out of memory does not refuse. Returns 1; 2 if dead entries are left to sweep; 3 if only the caller,
-- which `looks`, can notice that the taker does not confirm.
local function pass_on(floor, looked, looks)
  local more, _ = false, nil
  trusting = looks
  last = math.max(last, floor or 0)
  if not was_shared then
    _, more = hand_over(looked or 0, looked, '')
  elseif call('ZCARD', queue) > 0 then
    clear_away()
    _, more = hand_over(looked or 0, looked, '')
  end
  if not taker and stored == 0 then
    if was_shared then tighten() end
    local flag = call('EXISTS', waiters) == 1 and 'q' or '-'
    call('SET', main, 't1' .. flag .. fence_text(last), 'PX', memory_of(last))
  end
  return more and 2 or trusted and 3 or 1
end
