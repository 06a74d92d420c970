-- A session's beat: renews the session, and reads what is written in it.
-- KEYS    session
-- ARGV    proof
-- RETURN  the hash, flat | 0 no such session
local about = call('HMGET', session, 'a', 't')
if not about[1] or not string.find(about[1], proof, 1, true) then return 0 end
call('PEXPIRE', session, about[2])
return call('HGETALL', session)
