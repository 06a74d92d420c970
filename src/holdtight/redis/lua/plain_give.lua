-- Deletes a plain lock if its owner still holds it.
-- KEYS    lock
-- ARGV    owner
-- RETURN  1 done | 0 not ours
if call('GET', lock) == owner then return call('DEL', lock) end
return 0
