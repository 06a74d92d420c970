-- Drops a value, or makes it stale from now on. Spoils the flight in progress: its value will not be stored.
-- KEYS    main value failure
-- ARGV    how not_after
-- RETURN  1 there was a value, which was fresh if it is only made stale | 0 there was none | {-1, now} late
-- how is 'gone' or 'stale'.
--@include constants
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
local held, stored, mark = call('GET', main), call('GET', value), call('GET', failure)
if stored and KIND_OF(stored) ~= 'v1' or mark and KIND_OF(mark) ~= 'e1' then
  return redis.error_reply('HTFOREIGN the key holds a value that is not of this format')
end
if held and KIND_OF(held) == 'x1' and call('PTTL', main) > TAIL then
  call('SET', failure, 'e1s' .. OWNER_OF(held), 'PX', SPOIL_MS)
elseif mark then
  call('DEL', failure)
end
if not stored then return 0 end
local left, stale = call('PTTL', value), tonumber(STALE_OF(stored))
if how == 'gone' or stale == 0 then
  call('DEL', value)
  return 1
end
if left <= stale then return 0 end
call('PEXPIRE', value, stale)
return 1
