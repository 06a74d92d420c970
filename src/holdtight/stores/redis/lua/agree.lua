-- Writes the fence that a quorum agreed on to a node, if the owner still has the node's vote.
-- KEYS    main queue waiters holders
-- ARGV    owner fence ttl
-- RETURN  1 written, or more was there already | 0 not ours
local value = call('GET', main)
if not value then return 0 end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
--@include read_main
--@include queue_helpers
local agreed = tonumber(fence)
if kind == 'x1' then
  if left <= 0 or OWNER_OF(value) ~= owner then return 0 end
  if agreed <= last then return 1 end
  call('SET', main, UP_TO_OWNER_OF(value) .. fence .. LABEL_OF(value), 'KEEPTTL')
elseif shared == 'r' then
  local score = call('ZSCORE', holders, owner)
  local held = score and tonumber(score) > now and call('HGET', waiters, 'h' .. owner)
  if not held then return 0 end
  if tonumber(HELD_FENCE_OF(held)) < agreed then
    call('HSET', waiters, 'h' .. owner, UP_TO_HELD_COUNT_OF(held) .. fence .. HELD_LABEL_OF(held))
  end
  if agreed <= last then return 1 end
  call('SET', main, FRONT_OF(value) .. fence, 'KEEPTTL')
else
  return 0
end
keep_floor(agreed, tonumber(ttl))
return 1
