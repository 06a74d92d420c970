-- Renews a grant; never creates or revives one. Without a marker the time left only grows: a late request must not undo
-- a newer one. (An expiry that was set before the clock was set back is corrected.) With a marker the time left is set,
-- and may shrink: the marker's ordinal proves that no newer request of this owner has arrived.
-- KEYS    main waiters holders
-- ARGV    owner ttl px not_after [marker] [fence]
-- RETURN  1 renewed | {0, holder} not ours: '' if expired, gone or shared by others | {-1, now} late
-- RETURN  {0, holder, fence} released by force: the fence is that of the forced grant
-- px is ttl + TAIL; marker is as in lib/mark.lua, with an ordinal, or '' for none.
-- fence is that of the grant: a grant of this owner with another fence is not ours.
--@include constants
local value = call('GET', main)
if value and not marker and UP_TO_OWNER_OF(value) == 'x1-' .. owner then
  -- The usual case: no waiters, and no ordinal is remembered.
  local left = call('PTTL', main)
  if left <= TAIL then
    call('GETEX', main) -- as in lib/not_ours.lua
    return {0, ''}
  end
  local time = call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
  if tonumber(FENCE_OF(value)) <= now_us + ttl * 1000 then
    if left < tonumber(px) then call('PEXPIRE', main, px) end
    return 1
  end
end
--@rest
if marker == '' then marker = nil end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include not_ours
if not value then return not_ours('') end
--@include read_main
local ends = now + left
if shared then
  local score = call('ZSCORE', holders, owner)
  if not score or tonumber(score) <= now then return not_ours('') end
  local own = fence and call('HGET', waiters, 'h' .. owner) or ''
  if fence and HELD_FENCE_OF(own) ~= fence then return not_ours('') end
  ends = tonumber(score)
elseif kind == 'x1' and OWNER_OF(value) ~= owner then
  return not_ours(OWNER_OF(value))
elseif left <= 0 or fence and FENCE_OF(value) ~= fence then
  return not_ours('')
end
if now_us > tonumber(not_after) then return {-1, now} end
local queue -- not known here, and not needed
--@include queue_helpers
--@include mark
local known = call('HMGET', waiters, 'm' .. owner, 'e') -- before the first write: it may be somebody else's key
if is_overtaken(known[1], marker) then return {-1, now} end
-- If the fence is ahead of the clock and the expiry is later than the fence, the expiry was set before the clock was
-- set back. It no longer counts.
local exact = marker or last > now_us + ttl * 1000 and ends * 1000 > last
if shared then
--@include rearm
else
  call('PEXPIRE', main, exact and px or math.max(px, left + TAIL))
  keep_floor(last, tonumber(ttl))
end
if marker then
  mark(marker, known[2])
  if not flagged then call('SET', main, kind .. 'q' .. AFTER_FLAG_OF(value), 'KEEPTTL') end
end
return 1
