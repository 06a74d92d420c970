-- Sets the time left of a plain lock, or adds to it; never creates.
-- KEYS    lock
-- ARGV    owner ttl mode
-- RETURN  1 done | 0 not ours, or without an expiry where it must have one
-- mode: 'add' to the time left, 'replace' it, or 'set' it also where it is for ever.
if call('GET', lock) ~= owner then return 0 end
local left = call('PTTL', lock)
if left < 0 and mode ~= 'set' then return 0 end
if mode == 'add' then ttl = ttl + left end
call('PEXPIRE', lock, ttl)
return 1
