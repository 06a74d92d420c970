-- Writes an owner into a session: before its attempt, when it is granted, and when its grant is found lost.
-- KEYS    session
-- ARGV    proof owner entry most
-- RETURN  {1, ttl} written | 0 no such session | -1 it has too many owners | -2 the owner was struck off
-- proof is part of `about`: only a client that has it may write. most is the largest number of owners, or 0 to change
-- an entry only if it is there: a release that came meanwhile has struck it off.
-- An entry is  state(1) kind(1) n(9) fence(16) name.
local found = call('HMGET', session, 'a', 't', owner)
if not found[1] or not string.find(found[1], proof, 1, true) then return 0 end
if not found[3] then
  if most == '0' then return -2 end
  if call('HLEN', session) >= tonumber(most) + 2 then return -1 end
end
if not found[3] or ENROLLED_FENCE_OF(found[3]) <= ENROLLED_FENCE_OF(entry) then
  call('HSET', session, owner, entry) -- an owner that asks again, or of which a loss is told late, may have a later grant
end
call('PEXPIRE', session, found[2])
return {1, tonumber(found[2])}
