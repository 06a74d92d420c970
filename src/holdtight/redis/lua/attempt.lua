-- Asks for an exclusive lock: first request, confirmation of a hand-over and retry alike.
-- KEYS    main queue waiters
-- ARGV    ttl px limit label inbox not_after owner
-- RETURN  fence | {1, fence, now, expired_owner} | {0, now, holder, left, position, look}
-- RETURN  {-1, now} late | {-2, now, waiting} queue full | {-3, now} withdrawn
-- px is ttl + TAIL; limit is the longest queue to join, 0 asks without joining; not_after is in µs.
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
local now_us = seconds * 1000000 + micros
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end

--@include constants
local kind, last, left, flagged, expired = 't1', 0, 0, false, ''
if value then
  kind = sub(value, 1, 2)
  flagged = sub(value, 3, 3) == 'q'
  if kind == 't1' then
    last = #value == 19 and tonumber(sub(value, 4, 19))
  elseif kind == 'x1' then
    last = #value >= 43 and tonumber(sub(value, 28, 43))
    left = call('PTTL', main) - TAIL
    if left <= 0 then expired = sub(value, 4, 27) end
  else
    last = nil
  end
  if not last then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
else
  flagged = call('EXISTS', waiters) == 1
end

if left <= 0 and not flagged and last < now_us then
  -- The usual case. A fence is 16 digits: seconds, then six of microseconds.
  local text = seconds .. sub('00000' .. micros, -6)
  call('SET', main, 'x1-' .. owner .. text .. label, 'PX', px)
  if expired == '' then return text end
  return {1, text, math.floor(now_us / 1000), expired}
end

local now = math.floor(now_us / 1000)
--@include queue
local mine = left > 0 and sub(value, 4, 27) == owner
local entry, known, more, from = false, false, false, nil
if flagged or last >= now_us then
  local marker = call('HGET', waiters, 'm' .. owner)
  if marker and tonumber(marker) >= now and not mine then return {-3, now} end
  known = call('HGET', waiters, owner)
  entry = known and call('ZSCORE', queue, owner) and known -- or its line is gone: it joins anew
end
if mine then
  call('PEXPIRE', main, px)
  if known then leave_queue(owner) end
  keep_floor(last, tonumber(ttl))
  return {1, fence_text(last), now, ''}
end

if entry and is_passed_over(entry) then
  entry = with_mark(entry, '-')
  call('HSET', waiters, owner, entry)
  call('HDEL', waiters, 'c')
end

local holder = left > 0 and sub(value, 4, 27) or ''
if left <= 0 then
  last, from = floor_of(last)
  -- Whoever missed a hand-over still stands in line, and held nothing that could expire.
  if expired ~= '' and call('ZSCORE', queue, expired) then expired = '' end
  local id, claim
  id, claim, more = hand_over(last, from, owner)
  if id and id ~= owner then
    holder, left, value = id, claim, nil
  elseif more then
    left = 0 -- too many dead entries ahead for one script: look again at once
  else
    if known then leave_queue(owner) end
    local fence = math.max(last + 1, now_us)
    local text = fence_text(fence)
    local flag = call('EXISTS', waiters) == 1 and 'q' or '-'
    call('SET', main, 'x1' .. flag .. owner .. text .. label, 'PX', px)
    keep_floor(fence, tonumber(ttl))
    return {1, text, now, expired}
  end
end

if limit == '0' then return {0, now, holder, left, 0, left} end

if not entry then
  local waiting, looked = call('ZCARD', queue), call('HGET', waiters, 'c')
  if waiting >= tonumber(limit) then waiting = waiting - sweep_some(waiting) end
  if waiting >= tonumber(limit) then return {-2, now, waiting} end
  local tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  call('ZADD', queue, math.max(tail[2] or 0, looked or 0) + 1, owner)
end
local joined = entry and tonumber(sub(entry, 25, 37)) or now
call('HSET', waiters, owner, entry_of('x', '-', now + HEARTBEAT, ttl, joined, inbox, label))
call('PEXPIRE', queue, HEARTBEAT)
keep(waiters, HEARTBEAT)
if value and not flagged then
  call('SET', main, sub(value, 1, 2) .. 'q' .. sub(value, 4), 'KEEPTTL')
end
local position = call('ZRANK', queue, owner) + 1
local look = more and 0 or left + math.min(position - 1, 20) * 250
return {0, now, holder, left, position, look}
