-- Gives a node's vote back, and rings some of those who were denied meanwhile: not all, or all would come at once.
-- KEYS    main queue waiters holders watchers
-- ARGV    owner
-- RETURN  1 given back | {0, holder} not ours: '' if it is gone, free or shared by others
local value = call('GET', main)
if not value then return {0, ''} end
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
--@include main
--@include line
if kind == 'x1' then
  if sub(value, 4, 27) ~= owner then return {0, sub(value, 4, 27)} end
elseif shared then
  if call('ZREM', holders, owner) == 0 then return {0, ''} end
  call('HDEL', waiters, 'h' .. owner)
  if call('ZCARD', holders) > 0 then return 1 end
else
  return {0, ''}
end
local tombstone = 't1' .. (flagged and 'q' or '-') .. fence_text(last)
local done = redis.pcall('SET', main, tombstone, 'PX', memory_of(last))
if done.err then call('DEL', main) end
if call('EXISTS', watchers) == 1 then
  local some = call('ZRANGEBYSCORE', watchers, '(' .. now, '+inf', 'LIMIT', 0, 3)
  for i = 1, #some do
    redis.pcall('PUBLISH', sub(some[i], 25), 'g' .. sub(some[i], 1, 24))
    call('ZREM', watchers, some[i])
  end
end
return 1
