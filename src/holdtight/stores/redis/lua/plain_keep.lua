-- Sets the time left of a plain lock, or adds to it; never creates a lock. It acts only if the lock has the expiry that
-- the sender last knew, so that a request that arrives late, or twice, changes nothing.
-- KEYS    lock
-- ARGV    owner ttl mode known avoid not_after
-- RETURN  {1, expiry, now} done | {-2, expiry, now} another expiry than the known one | {-1, 0, now} late
-- RETURN  {0, 0, now} not ours, or without an expiry where it must have one
-- mode: 'add' to the time left, 'replace' it, or 'set' it even for a lock without an expiry. known: '' asks for the
-- expiry. avoid: the `known` expiries of this owner's requests that may still arrive. None of them is set meanwhile.
--@include plain_time
if now_us > tonumber(not_after) then return {-1, 0, now} end
if call('GET', lock) ~= owner then return {0, 0, now} end
--@include plain_known
if left < 0 and mode ~= 'set' then return {0, 0, now} end
if known == '' or not known_matches then return {-2, expiry, now} end
local target = (mode == 'add' and expiry or now) + ttl
for each in string.gmatch(avoid, '%d+') do
  if math.abs(target - each) < 10 then target = each + 10 end
end
call('PEXPIRE', lock, target - now)
return {1, target, now}
