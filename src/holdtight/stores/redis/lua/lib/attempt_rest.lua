-- The rest of an attempt, in any mode, after its fast path did not apply. `mine` is the fence if this owner holds the
-- name in this mode, else false; n and permits are numbers.
-- EXPECTS  CLAIM FRESH HEARTBEAT SWEEP TAIL expired flagged holders inbox kind label last left limit main mine mode n
-- EXPECTS  now now_us owner permits px queue shared ttl value waiters
-- LEAVES   nothing: it returns

--@include queue_helpers
local entry, known, looked, position = false, false, nil, nil
if flagged or last >= now_us then
  local found = call('HMGET', waiters, 'm' .. owner, owner, 'c', 'k' .. owner)
  if found[1] and tonumber(UNTIL_OF(found[1])) >= now then return {-3, now} end
  known, looked = found[2], found[3]
  entry = known and call('ZSCORE', queue, owner) and known -- or its line is gone: it joins anew
  if found[4] then call('HDEL', waiters, 'k' .. owner) end -- it asks for a new grant: the old one was taken by force
end
if mine then
  -- This request may be late, and its retry answered long ago: it extends the time left, and never shortens it.
  if mode == 'x' then
    call('PEXPIRE', main, math.max(px, left + TAIL))
    if known then leave_queue(owner) end
    keep_floor(last, tonumber(ttl))
    return {1, mine, now, ''}
  end
  local exact = false
--@include rearm
  if known then leave_queue(owner) end
  return {1, mine, now, ''}
end

-- An owner that attempts again is no longer passed over.
local function look_again()
  if entry and MARK_OF(entry) ~= '-' then
    call('HSET', waiters, owner, MODE_OF(entry) .. '-' .. AFTER_MARK_OF(entry))
    call('HDEL', waiters, 'c')
  end
end

local holder, more, patience, dealt = '', false, nil, false
if left > 0 then
  if mode == 'p' then return redis.error_reply('HTKIND an exclusive lock') end
  holder = OWNER_OF(value)
  look_again()
else
--@include holders
--@include handover
  local use, from = living > 0 and shared, 0
  while flagged and not use and from < SWEEP do
    local ids = call('ZRANGE', queue, from, from == 0 and 7 or SWEEP - 1)
    if #ids == 0 then break end
    local found = call('HMGET', waiters, unpack(ids))
    for i = #ids, 1, -1 do
      if is_alive(found[i]) then use = MODE_OF(found[i]) end
    end
    from = from == 0 and 8 or SWEEP
  end
  if use and (use == 'p') ~= (mode == 'p') then
    return redis.error_reply('HTKIND ' .. ({x = 'an exclusive lock', r = 'a read-write lock', p = 'a semaphore'})[use])
  end
  look_again()
  local marks = call('HMGET', waiters, 'f', 'c', 'e')
  dealt, looked = true, marks[2]
  last = math.max(last, marks[1] or 0)
  if shared then
    expired = clear_away()
  elseif expired ~= '' and call('ZSCORE', queue, expired) then
    expired = '' -- it missed a hand-over, and still stands in line: it held nothing that could expire
  end
  local stopped, place
  stopped, more, place = hand_over(looked or 0, looked, owner)
  if not stopped and fits(mode, n, permits) then
    if known then leave_queue(owner) end
    if mode == 'x' then
      last = math.max(last + 1, now_us)
      local text, flag = fence_text(last), call('EXISTS', waiters) == 1 and 'q' or '-'
      call('SET', main, 'x1' .. flag .. owner .. text .. label, 'PX', px)
      keep_floor(last, tonumber(ttl))
      if was_shared then tighten() end
      return {1, text, now, expired}
    end
    admit(owner, mode, n, tonumber(ttl), label)
    local text = fence_text(last)
    local marked = marks[3] and tonumber(marks[3]) >= now
    settle((marked or call('ZCARD', queue) > 0) and 'q' or '-')
    if place then hand_over(place, looked, '') end -- the waiters behind that can share it need not wait
    return {1, text, now, expired}
  end
  if taker then
    holder, left = taker, claimed
  elseif living > 0 then
    local one = mode == 'x' and call('ZRANGE', holders, -1, -1, 'WITHSCORES')
      or call('ZRANGEBYSCORE', holders, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    holder, left = one[1], one[2] - now
    -- Only a waiter ahead blocks this one, and it may have died without notice: check again within a heartbeat.
    if fits(mode, n, permits) then patience = math.min(left, HEARTBEAT) end
  else
    left = 0
    more = more or stored > 0 -- too many dead ones for one script: look again at once
  end
  if taker or longest > 0 then value = nil end -- which is flagged now
end

if limit == '0' then return {0, now, holder, left, 0, left} end

if not entry then
  local waiting = call('ZCARD', queue)
  if not flagged or dealt then looked = call('HGET', waiters, 'c') end -- it was not read, or may be another now
  if waiting >= tonumber(limit) then
    -- Drops dead waiters from a full queue; from another part of a long queue each time.
    local from = waiting > SWEEP and now % (waiting - SWEEP + 1) or 0
    local ids = call('ZRANGE', queue, from, from + SWEEP - 1)
    for i = 1, #ids do
      if not is_alive(call('HGET', waiters, ids[i])) then
        leave_queue(ids[i])
        waiting = waiting - 1
      end
    end
    if waiting >= tonumber(limit) then return {-2, now, waiting} end
  end
  local tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  call('ZADD', queue, math.max(tail[2] or 0, looked or 0) + 1, owner)
  position = waiting + 1
end
local joined = entry and tonumber(JOINED_OF(entry)) or now
local text = string.format('%s-%013.0f%09.0f%013.0f%02d%s', mode, now + HEARTBEAT, ttl, joined, #inbox, inbox)
if mode == 'p' then text = text .. string.format('%09.0f%09.0f', n, permits) end
call('HSET', waiters, owner, text .. label)
keep(queue, HEARTBEAT)
keep(waiters, HEARTBEAT)
if value and not flagged then
  call('SET', main, KIND_OF(value) .. 'q' .. AFTER_FLAG_OF(value), 'KEEPTTL')
end
position = position or call('ZRANK', queue, owner) + 1
local look = more and 0 or (patience or left) + math.min(position - 1, 20) * 250
return {0, now, holder, left, position, look}
