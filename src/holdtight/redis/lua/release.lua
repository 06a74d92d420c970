-- Gives an exclusive lock back, to the next in line if there is one.
-- KEYS    main queue waiters
-- ARGV    owner
-- RETURN  1 released | 2 released, sweep again | {0, holder} not ours: '' if the key is gone or free
local value = redis.call('GET', main)
if not value then return {0, ''} end
local kind = string.sub(value, 1, 2)
if kind ~= 'x1' then
  if kind == 't1' then return {0, ''} end
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
if string.sub(value, 4, 27) ~= owner then return {0, string.sub(value, 4, 27)} end
--@include constants
local text = string.sub(value, 28, 43)
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local last = tonumber(text)
if string.sub(value, 3, 3) == '-' then
  local memory = TAIL
  if last > now_us then memory = math.ceil((last - now_us) / 1000) + TAIL end
  local done = redis.pcall('SET', main, 't1-' .. text, 'PX', memory)
  if done.err then redis.call('DEL', main) end
  return 1
end
local now = math.floor(now_us / 1000)
--@include queue
leave_queue(owner)
return pass_on(last)
