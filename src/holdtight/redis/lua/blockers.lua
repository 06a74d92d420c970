-- Who keeps a waiter from a name. Reads, changes nothing.
-- KEYS    main queue waiters
-- ARGV    waiter
-- RETURN  {owner, …} every holder that must end before the waiter can have the name
-- Nobody is returned if the waiter does not stand in line, or if waiting may end without those holders: what is
-- returned here is what a deadlock is made of, so whatever is not known for sure is left out.
local value = call('GET', main)
if not value or sub(value, 1, 2) ~= 'x1' then return {} end
--@include constants
local holder, entry = sub(value, 4, 27), call('HGET', waiters, waiter)
if call('PTTL', main) <= TAIL or not entry or not call('ZSCORE', queue, waiter) then return {} end
local time = call('TIME')
if tonumber(sub(entry, 3, 15)) <= time[1] * 1000 + math.floor(time[2] / 1000) then return {} end
-- Who still stands in line has been handed the name and is about to confirm: it will run.
if call('HGET', waiters, holder) then return {} end
-- A process that was killed waits no more, though its entry lasts a while: nobody listens where it is rung.
local size = tonumber(sub(entry, 38, 39))
if size > 0 then
  local listening = redis.pcall('PUBSUB', 'NUMSUB', sub(entry, 40, 39 + size))
  if listening[2] == 0 then return {} end
end
return {holder}
