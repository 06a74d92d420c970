-- Stores what a flight has computed, or how it failed, but only if its owner still holds the lock and the name was not
-- invalidated since the owner took the lock. So no late flight overwrites a newer value, and no value from before an
-- invalidation comes back.
-- KEYS    main value failure
-- ARGV    owner kind fresh stale payload not_after
-- RETURN  1 stored | {0, holder} not ours: '' if it expired or is gone | 2 invalidated meanwhile | {-1, now} late
-- kind is 'v' for a value, 'n' for an exception that is an answer, 'f' for a failure. fresh and stale are ms; a failure
-- stays `fresh`.
--
-- A value is  'v1' kind(1) fresh(12) stale(12) payload;  it expires after fresh + stale.
-- A failure is  'e1f' text,  and the mark of an invalidation  'e1s' owner(24):  the flight of that owner is spoiled.
--@include constants
local held, time = call('GET', main), call('TIME')
local now_us = time[1] * 1000000 + time[2]
if now_us > tonumber(not_after) then return {-1, math.floor(now_us / 1000)} end
if not held or KIND_OF(held) ~= 'x1' or call('PTTL', main) <= TAIL then return {0, ''} end
if OWNER_OF(held) ~= owner then return {0, OWNER_OF(held)} end
local mark, stored = call('GET', failure), call('GET', value)
if stored and KIND_OF(stored) ~= 'v1' or mark and KIND_OF(mark) ~= 'e1' then
  return redis.error_reply('HTFOREIGN the key holds a value that is not of this format')
end
-- The mark stays: this answer may be lost, and then the owner asks again. The mark lapses after a while, so an older
-- flight may have been spoiled too.
if mark == 'e1s' .. owner then return 2 end
if now_us - tonumber(FENCE_OF(held)) > (SPOIL_MS - 60000) * 1000 then return 2 end
if kind == 'f' then
  call('SET', failure, 'e1f' .. payload, 'PX', fresh)
  return 1
end
local head = string.format('%012.0f%012.0f', tonumber(fresh), tonumber(stale))
call('SET', value, 'v1' .. kind .. head .. payload, 'PX', string.format('%.0f', fresh + stale))
if mark then call('DEL', failure) end
return 1
