-- Begins to undo the signing of a plain lock that was given up half-way. Where our own owner stands, the lock goes. Where
-- the text does, a cover that nobody else has takes its place, to be given back as any owner is: a delete that is asked
-- for twice could hit another's lock, taken under the same text meanwhile.
-- KEYS    lock
-- ARGV    owner text cover
-- RETURN  1 gone | 2 covered | 0 not there
local value = call('GET', lock)
if value == owner then return call('DEL', lock) end
if value == text then call('SET', lock, cover, 'KEEPTTL') end
return (value == text or value == cover) and 2 or 0
