-- Opens a session of the lock service, or opens it once more after a lost reply.
-- KEYS    session
-- ARGV    ttl about
-- RETURN  1 open
-- The session hash has  'a' → about (JSON),  't' → ttl (ms),  owner(24) → entry, see session_enrol.lua.
call('HSET', session, 'a', about, 't', ttl)
call('PEXPIRE', session, ttl)
return 1
