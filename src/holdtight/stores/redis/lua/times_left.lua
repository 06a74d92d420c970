-- Reads how long keys stay. Changes nothing.
-- KEYS    ...
-- ARGV    now ...
-- RETURN  {ms, …} in the order of the keys
local found = {}
for i = 1, #K do found[i] = call('PTTL', K[i]) end
return found
