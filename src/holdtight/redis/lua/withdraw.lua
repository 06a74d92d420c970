-- Undoes an attempt: leaves the line, passes a grant on, and hands on a name it finds free.
-- A marker refuses an attempt of this owner that is still on its way.
-- KEYS    main queue waiters
-- ARGV    owner marker
-- RETURN  1 done | 2 done, sweep again
-- marker is a server time in ms until which attempts of this owner are refused; 0 for none.
local value = call('GET', main)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
--@include queue
local kind, last, left, flagged = 't1', 0, 0, false
if value then
  kind = sub(value, 1, 2)
  flagged = sub(value, 3, 3) == 'q'
  if kind == 't1' then
    last = #value == 19 and tonumber(sub(value, 4, 19))
  elseif kind == 'x1' then
    last = #value >= 43 and tonumber(sub(value, 28, 43))
    left = call('PTTL', main) - TAIL
  else
    last = nil
  end
  if not last then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
else
  flagged = call('EXISTS', waiters) == 1
end
call('HGET', waiters, owner)
call('ZCARD', queue)
leave_queue(owner) -- and the first write is one that a server out of memory does not refuse
local until_ms = tonumber(marker)
if until_ms > now then
  call('HSET', waiters, 'm' .. owner, marker)
  keep(waiters, until_ms - now)
  drop_litter()
end
if kind == 'x1' and sub(value, 4, 27) == owner then return pass_on(last, owner) end
if flagged and left <= 0 then
  local from
  last, from = floor_of(last)
  local id, _, more = hand_over(last, from, '')
  if id then return 1 end
  if more then return 2 end
end
if until_ms > now and value and not flagged then
  call('SET', main, kind .. 'q' .. sub(value, 4), 'KEEPTTL')
end
return 1
