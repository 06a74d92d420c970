-- Finds the holders that block a waiter. Changes nothing.
-- KEYS    main queue waiters holders
-- ARGV    waiter
-- RETURN  {owner, …} every holder that must end before the waiter can have the name
-- Returns no owner if the waiter is not in the queue, or if its wait may end without those holders. Deadlocks are
-- deduced from this result, so uncertain blockers are left out. A waiter for permits waits for any of many holders;
-- no single one blocks it.
local value = call('GET', main)
local kind = value and KIND_OF(value)
if kind ~= 'x1' and kind ~= 's1' then return {} end
--@include constants
local entry, place = call('HGET', waiters, waiter), call('ZRANK', queue, waiter)
if not entry or not place then return {} end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function is_alive(one)
  return one and tonumber(EXPIRY_OF(one)) > now
end
if not is_alive(entry) then return {} end
-- A killed process no longer waits, though its entry remains for a while: its inbox has no subscriber.
local size = tonumber(INBOX_SIZE_OF(entry))
if size > 0 then
  local listening = redis.pcall('PUBSUB', 'NUMSUB', INBOX_OF(entry, size))
  if listening[2] == 0 then return {} end
end
if kind == 'x1' then
  local holder = OWNER_OF(value)
  -- A holder that is still in the queue was handed the name and is about to confirm: it will run.
  if call('PTTL', main) <= TAIL or call('ZSCORE', queue, holder) then return {} end
  return {holder}
end
-- A writer waits for every reader, and so does a reader behind a writer.
local writer = MODE_OF(entry) == 'x'
local ahead = (writer or place == 0) and {} or call('ZRANGE', queue, 0, math.min(place, 50) - 1)
for i = 1, #ahead do
  local one = call('HGET', waiters, ahead[i])
  writer = writer or is_alive(one) and MODE_AND_MARK_OF(one) == 'x-'
end
local found = {}
local readers = writer and call('ZRANGEBYSCORE', holders, '(' .. now, '+inf', 'LIMIT', 0, 100) or {}
for i = 1, #readers do
  if not call('ZSCORE', queue, readers[i]) then found[#found + 1] = readers[i] end
end
return found
