-- Reads everything about one name, changes nothing.
-- KEYS    main queue waiters
-- ARGV    most
-- RETURN  {now, value or '', left, {owner, entry, …} in line order, number waiting}
local value = redis.call('GET', main)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
--@include constants
if value and string.sub(value, 1, 2) ~= 'x1' and string.sub(value, 1, 2) ~= 't1' then
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
local left = value and redis.call('PTTL', main) - TAIL or 0
local ids = redis.call('ZRANGE', queue, 0, most - 1)
local line = {}
for i = 1, #ids do
  local entry = redis.call('HGET', waiters, ids[i])
  if entry and tonumber(string.sub(entry, 3, 15)) > now then
    line[#line + 1] = ids[i]
    line[#line + 1] = entry
  end
end
return {now, value or '', left, line, redis.call('ZCARD', queue)}
