-- Removes the record that a waiter published for an owner, unless a later wait has replaced it.
-- KEYS    published
-- ARGV    waiter
-- RETURN  1 removed | 0 not there, or another's
local value = call('GET', published)
if not value or WAITER_OF(value) ~= waiter then return 0 end
return call('DEL', published)
