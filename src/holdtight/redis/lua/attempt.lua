-- Asks for an exclusive lock: first request, confirmation of a hand-over and retry alike.
-- KEYS    main queue waiters
-- ARGV    ttl limit label inbox not_after owner
-- RETURN  fence | {1, fence, now, expired_owner} | {0, now, holder, left, position, look}
-- RETURN  {-1, now} late | {-2, now, waiting} queue full | {-3, now} withdrawn
-- limit is the longest queue to join; 0 asks without joining.
local value = redis.call('GET', main)
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
if now > tonumber(not_after) then return {-1, now} end

local kind, last, left, flagged, expired = 't1', 0, 0, false, ''
if value then
  kind = string.sub(value, 1, 2)
  flagged = string.sub(value, 3, 3) == 'q'
  if kind == 't1' then
    last = tonumber(string.sub(value, 4, 19))
  elseif kind == 'x1' then
    last = tonumber(string.sub(value, 28, 43))
    left = redis.call('PTTL', main) - TAIL
    if left <= 0 then expired = string.sub(value, 4, 27) end
  else
    last = nil
  end
  if not last then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
else
  flagged = redis.call('EXISTS', waiters) == 1
end

if left <= 0 and not flagged then
  local fence = math.max(last + 1, now_us)
  local text = string.format('%.0f', fence)
  redis.call('SET', main, 'x1-' .. owner .. text .. label, 'PX', ttl + TAIL)
  if expired == '' and fence == now_us then return text end
  if fence <= now_us + ttl * 1000 then return {1, text, now, expired} end
  redis.call('HSET', waiters, 'f', text)
  redis.call('PEXPIRE', waiters, math.ceil((fence - now_us) / 1000) + TAIL)
  return {1, text, now, expired}
end

--@include queue
local mine = left > 0 and string.sub(value, 4, 27) == owner
local entry, more, tail = false, false, nil
if flagged then
  local marker = redis.call('HGET', waiters, 'm' .. owner)
  if marker and tonumber(marker) >= now and not mine then return {-3, now} end
  entry = redis.call('HGET', waiters, owner)
end
if mine then
  redis.call('PEXPIRE', main, ttl + TAIL)
  if entry then leave_queue(owner) end
  keep_floor(last, tonumber(ttl))
  return {1, string.format('%.0f', last), now, ''}
end

local holder = left > 0 and string.sub(value, 4, 27) or ''
if left <= 0 then
  last = floor_of(last)
  if entry then
    entry = with_mark(entry, '-')
    redis.call('HSET', waiters, owner, entry)
  end
  local id, claim
  id, claim, more = hand_over(last, owner)
  if id and id ~= owner then
    holder, left, value = id, claim, nil
  elseif more then
    left = 0 -- too many dead entries ahead for one script: look again at once
  else
    if entry then leave_queue(owner) end
    local fence = math.max(last + 1, now_us)
    local text = fence_text(fence)
    local flag = redis.call('EXISTS', waiters) == 1 and 'q' or '-'
    redis.call('SET', main, 'x1' .. flag .. owner .. text .. label, 'PX', ttl + TAIL)
    keep_floor(fence, tonumber(ttl))
    return {1, text, now, expired}
  end
end

if limit == '0' then return {0, now, holder, left, 0, left} end

if not entry then
  tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  local waiting = redis.call('ZCARD', queue)
  if waiting >= tonumber(limit) then return {-2, now, waiting} end
  redis.call('HGET', waiters, owner)
  redis.call('ZADD', queue, (tail[2] or 0) + 1, owner)
end
local joined = entry and tonumber(string.sub(entry, 25, 37)) or now
redis.call('HSET', waiters, owner, entry_of('x', '-', now + HEARTBEAT, ttl, joined, inbox, label))
keep(queue, HEARTBEAT)
keep(waiters, HEARTBEAT)
if value and not flagged then
  redis.call('SET', main, string.sub(value, 1, 2) .. 'q' .. string.sub(value, 4), 'KEEPTTL')
end
local position = redis.call('ZRANK', queue, owner) + 1
local look = more and 0 or left + math.min(position - 1, 20) * 250
return {0, now, holder, left, position, look}
