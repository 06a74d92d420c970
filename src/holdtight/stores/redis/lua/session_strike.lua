-- Strikes an owner off a session: it has released its grant, or has left the line.
-- KEYS    session
-- ARGV    owner fence
-- RETURN  1 struck off | 0 it is not there, or it has a later grant
-- fence is that of the grant that has ended, in 16 digits, or 0 for a place in line: the same owner may have asked again
-- by way of another instance, and a grant that it got there stays.
local entry = call('HGET', session, owner)
if not entry or ENROLLED_STATE_OF(entry) ~= 'w' and ENROLLED_FENCE_OF(entry) > fence then return 0 end
return call('HDEL', session, owner)
