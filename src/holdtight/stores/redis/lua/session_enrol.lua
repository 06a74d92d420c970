-- Writes an owner into a session: before its attempt, when it is granted, and when its grant is found lost.
-- KEYS    session client
-- ARGV    proof owner entry most
-- RETURN  {1, ttl} written | {0, ttl} not written, since what is there is later | 0 no such session
-- RETURN  -1 it has too many owners | -2 the owner was struck off
-- proof is part of `about`: only a client that has it may write. most is the largest number of owners, or 0 to change
-- an entry only if it is there: a release that came meanwhile has struck it off.
-- client is the record of the session's host and pid, which lasts as long as the session.
-- An entry is  state(1) kind(1) n(9) fence(16) name.
local found = call('HMGET', session, 'a', 't', owner)
if not found[1] or not string.find(found[1], proof, 1, true) then return 0 end
local known, written = found[3], 1
if not known then
  if most == '0' then return -2 end
  if call('HLEN', session) >= tonumber(most) + 2 then return -1 end
elseif ENROLLED_FENCE_OF(known) > ENROLLED_FENCE_OF(entry) then
  written = 0 -- an owner that asks again, or of which a loss is told late, may have a later grant
elseif ENROLLED_STATE_OF(known) == 'w' and string.find(ENROLLED_STATE_OF(entry), '[etf]') then
  written = 0 -- it was released before the loss was found, and asks again
end
if written == 1 then call('HSET', session, owner, entry) end
call('PEXPIRE', session, found[2])
call('PEXPIRE', client, found[2])
return {written, tonumber(found[2])}
