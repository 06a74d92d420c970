-- Reads the whole state of one name. Changes nothing.
-- KEYS    main queue waiters holders
-- ARGV    most
-- RETURN  {now, value or '', left, {owner, entry, left, …} of the shared holders in the order of their fences,
-- RETURN  {owner, entry, …} in line order, number waiting, number of live holders}
-- left is the ms left to the exclusive holder, or to the last shared holder; above 0 only if the name is held.
local value = call('GET', main)
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--@include constants
local kind = value and KIND_OF(value)
local fence_at = value and ({x1 = FENCE_AT, t1 = SHARED_FENCE_AT, s1 = SHARED_FENCE_AT, p1 = SHARED_FENCE_AT})[kind]
if value and not (fence_at and tonumber(sub(value, fence_at, fence_at + 15))) then
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
local left, living, sharing = 0, 0, {}
if kind == 'x1' then
  left = call('PTTL', main) - TAIL
  if left > 0 then living = 1 end
elseif kind == 't1' then
  left = math.min(call('PTTL', main) - TAIL, 0)
else
  living = call('ZCOUNT', holders, '(' .. now, '+inf')
  local found = call('ZRANGEBYSCORE', holders, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  local those = {}
  for i = 1, #found, 2 do
    local entry = call('HGET', waiters, 'h' .. found[i])
    if entry then those[#those + 1] = {found[i], entry, found[i + 1] - now} end
  end
  table.sort(those, function(one, other) return HELD_FENCE_OF(one[2]) < HELD_FENCE_OF(other[2]) end)
  for i = 1, #those do
    for j = 1, 3 do sharing[#sharing + 1] = those[i][j] end
  end
  if living > 0 then left = call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2] - now end
end
local ids = call('ZRANGE', queue, 0, most - 1)
local line = {}
for i = 1, #ids do
  local entry = call('HGET', waiters, ids[i])
  if entry and tonumber(EXPIRY_OF(entry)) > now then
    line[#line + 1] = ids[i]
    line[#line + 1] = entry
  end
end
return {now, value or '', left, sharing, line, call('ZCARD', queue), living}
