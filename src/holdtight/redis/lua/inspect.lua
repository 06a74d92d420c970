-- Reads everything about one name, changes nothing.
-- KEYS    main queue waiters
-- ARGV    most
-- RETURN  {now, value or '', left, {owner, entry, …} in line order, number waiting}
local value = call('GET', main)
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--@include constants
local fence_at = value and ({x1 = 28, t1 = 4})[sub(value, 1, 2)]
if value and not (fence_at and tonumber(sub(value, fence_at, fence_at + 15))) then
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
local left = value and call('PTTL', main) - TAIL or 0
local ids = call('ZRANGE', queue, 0, most - 1)
local line = {}
for i = 1, #ids do
  local entry = call('HGET', waiters, ids[i])
  if entry and tonumber(sub(entry, 3, 15)) > now then
    line[#line + 1] = ids[i]
    line[#line + 1] = entry
  end
end
return {now, value or '', left, line, call('ZCARD', queue)}
