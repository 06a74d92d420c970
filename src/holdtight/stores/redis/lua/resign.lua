-- Gives a node's vote back, and rings some of the waiters that were denied meanwhile. Not all: they would all retry at
-- once.
-- KEYS    main
-- ARGV    owner
-- RETURN  1 given back | {0, holder} not ours: '' if it is gone, free or shared by others
-- RETURN  {0, holder, fence} released by force before: the fence is that of the forced grant
--@include constants
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
local done
if value and OWNER_OF(value) == owner and value >= 'x1' and value < 'x2' then
  local flag, fence = FLAG_OF(value), FENCE_OF(value)
  local text = seconds .. (#micros == 6 and micros or sub('00000' .. micros, -6))
  if #text == 16 and #fence == 16 and tonumber(fence) and fence < text then
    -- The usual case. The tombstone keeps the fence for the next owner.
    local quiet = flag == 'h' or call('EXISTS', main .. WATCHERS) == 0
    if quiet and flag == 'g' then flag = 'h' end
    done = redis.pcall('SET', main, 't1' .. flag .. fence, 'PX', TAIL_TEXT)
    if done.err then call('DEL', main) end
    if quiet then return 1 end
  end
end
--@rest
--@include companion_keys
local now_us = seconds * 1000000 + micros
local now = math.floor(now_us / 1000)
local fence -- not named here
--@include not_ours
if not done then
  if not value then return not_ours('') end
  if KIND_OF(value) == 'x1' then
    if OWNER_OF(value) ~= owner then return not_ours(OWNER_OF(value)) end
    local text = FENCE_OF(value)
    local last = #value >= 43 and tonumber(text)
    if not last then
      return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
    end
    local ahead = last > now_us and math.ceil((last - now_us) / 1000) or 0 -- it is remembered until the clock has passed it
    done = redis.pcall('SET', main, 't1' .. FLAG_OF(value) .. text, 'PX', ahead + TAIL)
  else
--@include read_main
--@include queue_helpers
    if not shared or call('ZREM', holders, owner) == 0 then return not_ours('') end
    call('HDEL', waiters, 'h' .. owner)
    if call('ZCARD', holders) > 0 then return 1 end
    done = redis.pcall('SET', main, 't1' .. (flagged and 'q' or '-') .. fence_text(last), 'PX', memory_of(last))
  end
  if done.err then call('DEL', main) end
end
if call('EXISTS', watchers) == 1 then
  local some = call('ZRANGEBYSCORE', watchers, '(' .. now, '+inf', 'LIMIT', 0, 3)
  for i = 1, #some do
    redis.pcall('PUBLISH', WATCHER_INBOX_OF(some[i]), 'g' .. WATCHER_OF(some[i]))
    call('ZREM', watchers, some[i])
  end
end
return 1
