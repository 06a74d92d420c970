-- Gives an exclusive lock back, to the next in line if there is one.
-- KEYS    main queue waiters
-- ARGV    owner
-- RETURN  1 released | 2 released, sweep again | {0, holder} not ours: '' if the key is gone or free
local value = call('GET', main)
if not value then return {0, ''} end
if sub(value, 4, 27) ~= owner or sub(value, 1, 2) ~= 'x1' then
  local kind = sub(value, 1, 2)
  if kind == 'x1' then return {0, sub(value, 4, 27)} end
  if kind == 't1' then return {0, ''} end
  return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
end
local text, time = sub(value, 28, 43), call('TIME')
local now_us, last = time[1] * 1000000 + time[2], tonumber(text)
if last < now_us and sub(value, 3, 3) == '-' then
  local done = redis.pcall('SET', main, 't1-' .. text, 'PX', '10000')
  if done.err then call('DEL', main) end
  return 1
end
local now = math.floor(now_us / 1000)
--@include constants
--@include queue
return pass_on(last, owner)
