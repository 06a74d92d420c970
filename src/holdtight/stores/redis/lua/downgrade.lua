-- Turns the exclusive holder into a reader in one step, with a higher fence. Readers at the head of the queue are
-- admitted too.
-- KEYS    main queue waiters holders
-- ARGV    owner ttl px label not_after [marker] [fence]
-- RETURN  {1, fence, now, ''} | {0, now, holder} not ours, or expired: '' if nobody holds it alone | {-1, now} late
-- RETURN  {0, now, holder, fence} released by force
-- marker is as in lib/mark.lua; it refuses earlier requests of the writer. '' for none.
-- fence is that of the writer's grant: another grant of this owner is not ours.
if marker == '' then marker = nil end
local value = call('GET', main)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
--@include constants
--@include read_main
--@include not_ours
local function lost(holder)
  local answer = not_ours(holder)
  return {0, now, holder, answer[3]}
end
if shared == 'r' then
  local score = call('ZSCORE', holders, owner)
  local held = score and tonumber(score) > now and call('HGET', waiters, 'h' .. owner)
  if not held or fence and HELD_FENCE_OF(held) <= fence then return lost('') end
  local known = call('HGET', waiters, owner)
  if known then call('ZCARD', queue) end
  local exact = false
--@include rearm
  if known then
    call('ZREM', queue, owner)
    call('HDEL', waiters, owner)
  end
  return {1, HELD_FENCE_OF(held), now, ''}
end
if left <= 0 then return lost('') end
if OWNER_OF(value) ~= owner then return lost(OWNER_OF(value)) end
if fence and FENCE_OF(value) ~= fence then return lost('') end
--@include queue_helpers
--@include mark
--@include holders
--@include handover
local known = call('HMGET', waiters, 'c', owner, 'e')
call('ZCARD', queue)
admit(owner, 'r', 1, tonumber(ttl), label)
if known[2] then leave_queue(owner) end
local text = fence_text(last)
if marker then mark(marker, known[3]) end
settle(marker and 'q' or FLAG_OF(value))
if flagged then hand_over(known[1] or 0, known[1], '') end
return {1, text, now, ''}
