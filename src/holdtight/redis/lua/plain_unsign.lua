-- Deletes a plain lock whose signing was given up half-way.
-- KEYS    lock
-- ARGV    owner text
-- RETURN  1 done | 0 not there
local value = call('GET', lock)
if value == owner or value == text then return call('DEL', lock) end
return 0
