-- Deletes a plain lock if its owner still holds it. It needs no arrival limit: an owner is made for one acquisition and
-- never acquires again after its release. A text that a caller chose is covered first: see plain_unsign.
-- KEYS    lock
-- ARGV    owner
-- RETURN  1 done | 0 not ours
if call('GET', lock) == owner then return call('DEL', lock) end
return 0
